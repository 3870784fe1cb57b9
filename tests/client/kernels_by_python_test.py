#!/usr/bin/env python3
"""Every template of kernels/, launched from Python on random data, against numpy.

    HONE_BIN=DIR HONE_KERNELS=DIR PYTHONPATH=DIR python3 tests/client/kernels_by_python_test.py

On the CPU reference device with numpy's arrays, untuned and in one type for speed; with
HONE_TEST_DEVICE=cuda on the GPU with PyTorch's, tuned first.
References are computed in double precision from copies on the host, by formulas that share nothing with
the templates'.
"""

import math
import os
import tempfile
import unittest

import numpy as np

import hone_client
from hone_client import errors
from local_daemon import LocalDaemon

ON_GPU = os.environ.get("HONE_TEST_DEVICE") == "cuda"
if ON_GPU:
    import torch

# Half a unit in the last place of each type, once for the result and once for slack, and what sums in
# single precision are off by.
RELATIVE_ERROR = {"f32": 2e-5, "f16": 2e-3, "bf16": 1.6e-2, "u8": 0}


class NumpyArrays:
    dtypes = ("f32",)
    types = {
        "f32": np.float32, "f16": np.float16, "u8": np.uint8, "i32": np.int32, "i64": np.int64
    }  # fmt: skip

    def random(self, rng, dtype, shape):
        if dtype == "u8":
            return rng.integers(0, 256, shape, dtype=np.uint8)
        return rng.standard_normal(shape).astype(self.types[dtype])

    def poisoned(self, dtype, shape):
        return np.full(shape, 77, self.types[dtype])

    def of(self, array):
        return array

    def on_host(self, array):
        return array.astype(np.float64)


class TorchArrays:
    dtypes = ("f32", "f16", "bf16")

    def __init__(self):
        self.types = {
            "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "u8": torch.uint8,
            "i32": torch.int32, "i64": torch.int64
        }  # fmt: skip

    def random(self, rng, dtype, shape):
        if dtype == "u8":
            return torch.from_numpy(rng.integers(0, 256, shape, dtype=np.uint8)).cuda()
        values = rng.standard_normal(shape).astype(np.float32)
        return torch.from_numpy(values).to("cuda", self.types[dtype])

    def poisoned(self, dtype, shape):
        return torch.full(shape, 77, dtype=self.types[dtype], device="cuda")

    def of(self, array):
        return torch.from_numpy(array).cuda()

    def on_host(self, array):
        return array.double().cpu().numpy()


ARRAYS = TorchArrays() if ON_GPU else NumpyArrays()


def activation(name, x):
    if name == "identity":
        return x
    if name == "relu":
        return np.maximum(x, 0)
    if name in ("sigmoid", "silu"):
        sigmoid = 1 / (1 + np.exp(-x))
        return sigmoid if name == "sigmoid" else x * sigmoid
    if name == "gelu":
        return x * 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


class KernelsByPythonTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.daemon = LocalDaemon(cls.directory.name, "--device", "cuda" if ON_GPU else "cpu")
        cls.client = hone_client.connect(cls.daemon.endpoint, enable_cpu_device=True)
        if ON_GPU:
            torch.zeros(1, device="cuda")  # whose context the kernels are for

    @classmethod
    def tearDownClass(cls):
        cls.daemon.kill()
        cls.directory.cleanup()

    def setUp(self):
        self.rng = np.random.default_rng(7)

    def kernel(self, template, **params):
        """Made for these params; launches of other sizes use it too. On the GPU its config is the
        best of a few, which asks more of sizes and addresses than the default does."""
        if ON_GPU:
            types = ("T", "A", "OUT", "INDEX")
            assigned = [
                f"{name}={value.upper() if name in types else str(value).lower() if value is True else value}"
                for name, value in params.items()
            ]
            self.daemon.hone("tune", template, *assigned, "--evaluations", "8")
        kernel = self.client.kernel(
            template, architecture=None if ON_GPU else "cpu", max_wait=600, **params
        ).prepare()
        self.assertEqual(kernel.source, "TUNED" if ON_GPU else "DEFAULT")
        return kernel

    def assert_close(self, dtype, actual, expected, scale=1.0, what=""):
        """``scale``: the largest operand that a result may be a small difference of."""
        actual = ARRAYS.on_host(actual)
        self.assertEqual(actual.shape, expected.shape, what)
        error = np.abs(actual - expected)
        allowed = RELATIVE_ERROR[dtype] * np.abs(expected) + 1e-6 * scale
        if dtype == "f16":
            allowed += 2.0**-24  # where its numbers lie furthest apart for their size
        self.assertFalse((error > allowed).any() or np.isnan(actual).any(),
                         f"{what}: off by {error.max(initial=0)}")  # fmt: skip

    def each_offset(self, dtype, shape):
        """Random arrays of one dimension or more that begin at different offsets from 256 bytes."""
        count = math.prod(shape)
        for offset in (0, 1, 3):
            yield ARRAYS.random(self.rng, dtype, (count + offset,))[offset:].reshape(shape)

    def test_copy_1d(self):
        for dtype in (*ARRAYS.dtypes, "u8"):
            kernel = self.kernel("copy_1d", T=dtype, n=1 << 16)
            for n in (0, 1, 17, 1 << 16, (1 << 16) + 1, 100_003):
                for src in self.each_offset(dtype, (n,)):
                    dst = ARRAYS.poisoned(dtype, (n + 3,))
                    kernel(src, out=dst[1 : n + 1])
                    expected = np.concatenate([[77], ARRAYS.on_host(src), [77, 77]])
                    np.testing.assert_array_equal(ARRAYS.on_host(dst), expected)

    def test_axpby_act(self):
        for dtype in ARRAYS.dtypes:
            for act in ("identity", "relu", "sigmoid", "silu", "gelu", "gelu_tanh"):
                kernel = self.kernel("axpby_act", T=dtype, ACT=act, n=4096)
                for n in (0, 1, 4097, 5000):
                    for x in self.each_offset(dtype, (n,)):
                        y = ARRAYS.random(self.rng, dtype, (n,))
                        operands = 1.25 * ARRAYS.on_host(x), -0.5 * ARRAYS.on_host(y)
                        kernel(x=x, y=y, a=1.25, b=-0.5)
                        self.assert_close(dtype, y, activation(act, sum(operands)), 20, act)

    def test_elementwise_chains(self):
        gelu_tanh = lambda x: activation("gelu_tanh", x)  # noqa: E731
        silu = lambda x: activation("silu", x)  # noqa: E731
        # Chain, further parameters, shapes of its inputs, the same by numpy.
        chains = (
            ("swiglu", {}, ("full", "full"), lambda a, b: silu(a) * b),
            ("silu(a) * b", {}, ("full", "full"), lambda a, b: silu(a) * b),
            ("geglu", {}, ("full", "full"), lambda a, b: gelu_tanh(a) * b),
            ("add_bias_gelu", {}, ("full", "row"), lambda a, b: gelu_tanh(a + b)),
            ("scale_residual", {}, ("full", "row", "full"), lambda a, b, c: a * b + c),
            *(("clamp(a - b, -1, 1) * d + where(c < 0, 2, c)",
               {"B_SHAPE": "column", "C_SHAPE": "scalar"}, ("full", "column", "scalar", "full"),
               lambda a, b, c, d: np.clip(a - b, -1, 1) * d + np.where(c < 0, 2, c)),),
        )  # fmt: skip
        for dtype in ARRAYS.dtypes:
            for f, more, inputs, compute in chains:
                kernel = self.kernel("elementwise", f=f, A=dtype, rows=64, cols=256, **more)
                for rows, cols in ((0, 5), (1, 1), (64, 256), (33, 257), (5, 4096)):
                    shapes = {"full": (rows, cols), "row": (cols,), "column": (rows, 1), "scalar": (1,)}
                    arrays = [ARRAYS.random(self.rng, dtype, shapes[shape]) for shape in inputs]
                    expected = compute(*(ARRAYS.on_host(array) for array in arrays))
                    out = kernel(*arrays, out=ARRAYS.poisoned(dtype, (rows, cols)))
                    self.assert_close(dtype, out, expected, 20, f"{f} at {rows}x{cols}")

    def test_elementwise_scalars_and_in_place(self):
        for dtype in ARRAYS.dtypes:
            kernel = self.kernel("elementwise", f="alpha * a + beta", A=dtype, rows=64, cols=256)
            a = ARRAYS.random(self.rng, dtype, (9, 130))
            expected = 1.25 * ARRAYS.on_host(a) - 0.5
            kernel(a, out=a, alpha=1.25, beta=-0.5)
            self.assert_close(dtype, a, expected, 10, "in place")
            with self.assertRaisesRegex(Exception, "b"):
                kernel(a, b=a, out=a, alpha=1.25, beta=-0.5)  # the chain reads no b

    def test_copy_2d_between_padded_rows(self):
        for dtype in ARRAYS.dtypes:
            kernel = self.kernel("copy_2d", T=dtype, rows=64, cols=256)
            for rows, cols, src_pad, dst_pad in (
                *((0, 256, 0, 0), (64, 0, 0, 0), (1, 1, 0, 0), (65, 257, 0, 0)),
                *((33, 256, 8, 0), (33, 256, 0, 8), (7, 100, 3, 5)),
            ):
                src = ARRAYS.random(self.rng, dtype, (rows, cols + src_pad))[:, :cols]
                dst = ARRAYS.poisoned(dtype, (rows, cols + dst_pad))
                kernel(src, out=dst[:, :cols], src_pad=src_pad, dst_pad=dst_pad)
                expected = np.full((rows, cols + dst_pad), 77.0)
                expected[:, :cols] = ARRAYS.on_host(src)
                np.testing.assert_array_equal(ARRAYS.on_host(dst), expected)

    def test_transpose(self):
        for dtype in (*ARRAYS.dtypes, "u8"):
            kernel = self.kernel("transpose", T=dtype, batch=2, rows=128, cols=128)
            for batch, rows, cols in (
                *((1, 0, 5), (1, 5, 0), (0, 5, 5), (1, 1, 1), (2, 128, 128), (1, 129, 127)),
                *((3, 24, 1000), (5, 1000, 3), (17, 8, 264)),
            ):
                for src in self.each_offset(dtype, (batch, rows, cols)):
                    dst = kernel(src, out=ARRAYS.poisoned(dtype, (batch, cols, rows)))
                    expected = ARRAYS.on_host(src).transpose(0, 2, 1)
                    np.testing.assert_array_equal(ARRAYS.on_host(dst), expected)

    def test_permute(self):
        # Two orders that copy rows, and those in which the innermost axes differ and others fold or do not.
        orders = (213, 2103, 132, 231, 2301, 3210) if ON_GPU else (213, 231, 3210)
        for dtype in (*ARRAYS.dtypes, "u8") if ON_GPU else ARRAYS.dtypes:
            for order in orders:
                axes = [int(digit) for digit in f"{order:04}"]
                kernel = self.kernel("permute", T=dtype, ORDER=order, d0=4, d1=32, d2=16, d3=64)
                for shape in (
                    *((4, 32, 16, 64), (1, 1, 1, 1), (2, 0, 3, 4), (3, 5, 7, 9), (2, 40, 1, 70)),
                    *((2, 3, 50, 1), (1, 33, 1, 1), (1, 1, 129, 127), (100, 1, 1, 40), (2, 3, 8, 8)),
                ):
                    for src in self.each_offset(dtype, shape):
                        expected = ARRAYS.on_host(src).transpose(axes)
                        dst = kernel(src, out=ARRAYS.poisoned(dtype, expected.shape))
                        np.testing.assert_array_equal(ARRAYS.on_host(dst), expected, f"{order} {shape}")

    def indices(self, dtype, values):
        values = np.array(values, {"i32": np.int32, "i64": np.int64}[dtype])
        return torch.from_numpy(values).cuda() if ON_GPU else values

    def test_gather_rows(self):
        for dtype in (*ARRAYS.dtypes, "u8"):
            for index_type in ("i32", "i64"):
                kernel = self.kernel("gather_rows", T=dtype, INDEX=index_type, rows=64, cols=256, table_rows=300)
                for rows, cols, table_rows in ((0, 8, 3), (5, 0, 3), (1, 1, 1), (64, 256, 300), (33, 1001, 7)):
                    # Beyond either end there are rows of zeros.
                    named = self.rng.integers(-2, table_rows + 2, rows)
                    for src in self.each_offset(dtype, (table_rows, cols)):
                        table = ARRAYS.on_host(src)
                        expected = np.zeros((rows, cols))
                        for row, name in enumerate(named):
                            if 0 <= name < table_rows:
                                expected[row] = table[name]
                        dst = ARRAYS.poisoned(dtype, (rows, cols))
                        kernel(src, self.indices(index_type, named), out=dst)
                        np.testing.assert_array_equal(ARRAYS.on_host(dst), expected)

    def test_scatter_rows(self):
        for dtype in (*ARRAYS.dtypes, "u8"):
            for index_type in ("i32", "i64"):
                kernel = self.kernel("scatter_rows", T=dtype, INDEX=index_type, rows=64, cols=256, table_rows=300)
                for rows, cols, table_rows in ((0, 8, 3), (3, 0, 3), (1, 1, 1), (64, 256, 300), (7, 1001, 7)):
                    # Rows that nobody names stay, and names beyond either end are no rows.
                    named = self.rng.permutation(table_rows + 4)[:rows] - 2
                    for src in self.each_offset(dtype, (rows, cols)):
                        dst = ARRAYS.poisoned(dtype, (table_rows, cols))
                        expected = np.full((table_rows, cols), 77.0)
                        for row, name in zip(ARRAYS.on_host(src), named):
                            if 0 <= name < table_rows:
                                expected[name] = row
                        kernel(dst=dst, src=src, index=self.indices(index_type, named))
                        np.testing.assert_array_equal(ARRAYS.on_host(dst), expected)

    def by_rows(self, template, out_shape, out_dtype, compute, **call):
        """A template over rows of ``cols``, which is specialised. ``params``: further parameters;
        ``inputs``: further arrays, of a type, rows and cols, which ``compute`` gets too."""
        for dtype in ARRAYS.dtypes:
            for cols in (1, 100, 1024, 4099) if ON_GPU else (101,):
                kernel = self.kernel(template, T=dtype, rows=64, cols=cols, **call.get("params", {}))
                for rows in (0, 1, 65, 200):
                    for x in self.each_offset(dtype, (rows, cols)):
                        out = ARRAYS.poisoned(out_dtype or dtype, out_shape(rows, cols))
                        inputs = call.get("inputs", lambda *_: {})(dtype, rows, cols)
                        kernel(x, **inputs, **{call.get("out", "y"): out}, **call.get("scalars", {}))
                        expected, scale = compute(
                            ARRAYS.on_host(x), **{name: ARRAYS.on_host(a) for name, a in inputs.items()}
                        )
                        self.assert_close(out_dtype or dtype, out, expected, scale,
                                          f"{template} {dtype} {rows}x{cols}")  # fmt: skip

    def vectors(self, *names):
        return lambda dtype, rows, cols: {
            name: ARRAYS.random(self.rng, dtype, (cols,)) for name in names
        }

    def test_rmsnorm(self):
        def compute(x, weight):
            mean = (x * x).mean(axis=1, keepdims=True)
            return x / np.sqrt(mean + 1e-5) * weight, 1

        self.by_rows(
            *("rmsnorm", lambda rows, cols: (rows, cols), None, compute),
            inputs=self.vectors("weight"),
            scalars={"eps": 1e-5},
        )

    def test_layernorm(self):
        def compute(x, weight, bias=0.0):
            apart = x - x.mean(axis=1, keepdims=True)
            variance = (apart * apart).mean(axis=1, keepdims=True)
            return apart / np.sqrt(variance + 1e-5) * weight + bias, 10

        for names in (("weight", "bias"), ("weight",)):
            self.by_rows(
                *("layernorm", lambda rows, cols: (rows, cols), None, compute),
                inputs=self.vectors(*names),
                scalars={"eps": 1e-5},
            )

    def test_rmsnorm_of_a_sum_in_place_of_the_residual(self):
        for dtype in ARRAYS.dtypes:
            kernel = self.kernel("rmsnorm", T=dtype, rows=64, cols=100, RESIDUAL=True)
            for rows in (0, 1, 65):
                for x in self.each_offset(dtype, (rows, 100)):
                    residual = ARRAYS.random(self.rng, dtype, (rows, 100))
                    weight = ARRAYS.random(self.rng, dtype, (100,))
                    added = ARRAYS.on_host(x) + ARRAYS.on_host(residual)
                    y = ARRAYS.poisoned(dtype, (rows, 100))
                    kernel(x, weight, residual=residual, h=residual, y=y, eps=1e-5)
                    self.assert_close(dtype, residual, added, 10, "sum")
                    h = ARRAYS.on_host(residual)
                    mean = (h * h).mean(axis=1, keepdims=True)
                    expected = h / np.sqrt(mean + 1e-5) * ARRAYS.on_host(weight)
                    self.assert_close(dtype, y, expected, 1, "norm")

    def test_softmax(self):
        def compute(x):
            powers = np.exp(x - x.max(axis=1, keepdims=True, initial=-np.inf))
            return powers / powers.sum(axis=1, keepdims=True), 1

        self.by_rows("softmax", lambda rows, cols: (rows, cols), None, compute)

    def test_log_softmax_scaled_and_masked(self):
        def compute(x, mask):
            f = 0.5 * x + mask
            f = f - f.max(axis=1, keepdims=True, initial=-np.inf)
            return f - np.log(np.exp(f).sum(axis=1, keepdims=True)), 40

        self.by_rows(
            *("log_softmax", lambda rows, cols: (rows, cols), None, compute),
            params={"f": "x * scale + mask"},
            inputs=lambda dtype, rows, cols: {"mask": ARRAYS.random(self.rng, dtype, (rows, cols))},
            scalars={"scale": 0.5},
        )

    def test_row_reduce(self):
        operations = {
            # Numbers near 1 cancel: the error counts against what was added.
            "sum": lambda x: x.sum(axis=1),
            "maximum": lambda x: x.max(axis=1, initial=-np.inf),
            "mean_variance": lambda x: x.mean(axis=1),
        }
        for name, compute in operations.items():
            self.by_rows(
                *("row_reduce", lambda rows, cols: (rows,), "f32", lambda x: (compute(x), 100)),
                params={"OP": name},
            )

    def test_row_reduce_finds_the_first_largest_and_the_variance(self):
        for dtype in ARRAYS.dtypes:
            argmax = self.kernel("row_reduce", T=dtype, rows=64, cols=100, OP="argmax")
            moments = self.kernel("row_reduce", T=dtype, rows=64, cols=100, OP="mean_variance")
            for rows in (1, 65):
                for x in self.each_offset(dtype, (rows, 100)):
                    if rows > 1:
                        x[0, :] = 3
                        x[1, 7:] = 9
                    y, variance = (ARRAYS.poisoned("f32", (rows,)) for _ in range(2))
                    index = ARRAYS.poisoned("i64", (rows,))
                    argmax(x, y=y, index=index)
                    values = ARRAYS.on_host(x)
                    np.testing.assert_array_equal(ARRAYS.on_host(index), values.argmax(axis=1))
                    np.testing.assert_array_equal(ARRAYS.on_host(y), values.max(axis=1))
                    moments(x, y=y, variance=variance)
                    self.assert_close("f32", variance, values.var(axis=1, ddof=1), 10, "variance")

    def test_cross_entropy(self):
        for dtype in ARRAYS.dtypes:
            for wide in ("i32", "i64"):
                kernel = self.kernel("cross_entropy", T=dtype, INDEX=wide, rows=64, cols=100)
                for rows in (0, 1, 65):
                    for x in self.each_offset(dtype, (rows, 100)):
                        target = ARRAYS.poisoned(wide, (rows,))
                        target[: rows // 2] = -100
                        loss, lse = (ARRAYS.poisoned("f32", (rows,)) for _ in range(2))
                        kernel(x, target, loss=loss, lse=lse, ignore_index=-100)
                        values = ARRAYS.on_host(x)
                        all_ = np.log(np.exp(values).sum(axis=1))
                        expected = all_ - values[:, 77]
                        expected[: rows // 2] = 0
                        self.assert_close("f32", lse, all_, 10, "log-sum-exp")
                        self.assert_close("f32", loss, expected, 10, "loss")

    @staticmethod
    def rotated(x, angles, interleaved):
        """Of heads [tokens, heads, head_dim]; a column of ``angles`` [tokens, pairs] for each pair."""
        pairs = angles.shape[1]
        cosine, sine = np.cos(angles)[:, None], np.sin(angles)[:, None]
        result = x.copy()
        low, high = (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)) if interleaved else (
            slice(0, pairs), slice(pairs, 2 * pairs))  # fmt: skip
        result[..., low] = x[..., low] * cosine - x[..., high] * sine
        result[..., high] = x[..., low] * sine + x[..., high] * cosine
        return result

    def test_rope(self):
        for dtype in ARRAYS.dtypes:
            for layout in ("halves", "interleaved"):
                kernel = self.kernel("rope", T=dtype, LAYOUT=layout, tokens=64, q_heads=4, kv_heads=2,
                                     head_dim=64, rotary_dim=32, max_positions=50)  # fmt: skip
                angles = self.rng.uniform(-3, 3, (50, 16))
                table = np.concatenate([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
                for tokens in (0, 1, 67):
                    positions = self.rng.integers(0, 50, tokens)
                    for q in self.each_offset(dtype, (tokens, 4, 64)):
                        k = ARRAYS.random(self.rng, dtype, (tokens, 2, 64))
                        expected = [self.rotated(ARRAYS.on_host(x), angles[positions], layout == "interleaved")
                                    for x in (q, k)]  # fmt: skip
                        kernel(q=q, k=k, q_out=q, k_out=k, positions=ARRAYS.of(positions),
                               rotation=ARRAYS.of(table))  # fmt: skip
                        for x, right in zip((q, k), expected):
                            self.assert_close(dtype, x, right, 20, f"rope {dtype} {layout} {tokens}")

    def test_rope_norm_append(self):
        for dtype in ARRAYS.dtypes:
            kernel = self.kernel("rope_norm_append", T=dtype, ROTATION="computed", tokens=64, q_heads=4,
                                 kv_heads=2, head_dim=64, rotary_dim=64, cache_slots=90)  # fmt: skip
            frequencies = (10000.0 ** (-np.arange(32) / 32)).astype(np.float32)
            for tokens, weighted, with_k_out in (
                *((0, True, True), (1, True, False), (67, False, True), (70, True, True)),
            ):
                positions = self.rng.integers(0, 3000, tokens)
                slots = self.rng.permutation(90)[:tokens]
                slots[1::5] = -1
                q, k, v = (ARRAYS.random(self.rng, dtype, (tokens, heads, 64)) for heads in (4, 2, 2))
                weights = {}
                if weighted:
                    weights = {name: ARRAYS.random(self.rng, dtype, (64,)) for name in ("q_weight", "k_weight")}
                angles = (positions[:, None].astype(np.float32) * frequencies).astype(np.float64)
                right = {}
                for name, x in (("q", q), ("k", k)):
                    x = ARRAYS.on_host(x)
                    x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)
                    if weighted:
                        x = x * ARRAYS.on_host(weights[name + "_weight"])
                    right[name] = self.rotated(x, angles, False)
                caches = {name: ARRAYS.poisoned(dtype, (90, 2, 64)) for name in ("k_cache", "v_cache")}
                q_out, k_out = (ARRAYS.poisoned(dtype, (tokens, heads, 64)) for heads in (4, 2))
                kernel(q=q, k=k, v=v, q_out=q_out, **({"k_out": k_out} if with_k_out else {}), **caches,
                       positions=ARRAYS.of(positions), slots=ARRAYS.of(slots),
                       rotation=ARRAYS.of(frequencies[None]), **weights, eps=1e-5)  # fmt: skip
                self.assert_close(dtype, q_out, right["q"], 50, "q_out")
                if with_k_out:
                    self.assert_close(dtype, k_out, right["k"], 50, "k_out")
                for cache, values in (("k_cache", right["k"]), ("v_cache", ARRAYS.on_host(v))):
                    expected = np.full((90, 2, 64), 77.0)
                    expected[slots[slots >= 0]] = values[slots >= 0]
                    self.assert_close(dtype, caches[cache], expected, 50, cache)

    def check_reduction(self, template, op, kernel, x, step):
        """Of ``step`` results, each of every ``step``-th element of ``x``."""
        host = ARRAYS.on_host(x).reshape(-1, step)
        out = {"y": ARRAYS.poisoned("f32", (step,))}
        if op == "argmax":
            out["index"] = ARRAYS.poisoned("i64", (step,))
        if op == "mean_variance":
            out["variance"] = ARRAYS.poisoned("f32", (step,))
        kernel(x=x, **out)
        what = f"{template} {op} {host.shape}"
        if op == "sum":
            self.assert_close("f32", out["y"], host.sum(axis=0), 100, what)
        elif op == "mean_variance":
            self.assert_close("f32", out["y"], host.mean(axis=0), 10, what)
            self.assert_close("f32", out["variance"], host.var(axis=0, ddof=1), 10, what)
        else:
            np.testing.assert_array_equal(ARRAYS.on_host(out["y"]), host.max(axis=0), what)
        if op == "argmax":
            np.testing.assert_array_equal(ARRAYS.on_host(out["index"]), host.argmax(axis=0), what)

    def test_column_reduce_and_reduce_all(self):
        for dtype in ARRAYS.dtypes:
            for op in ("sum", "maximum", "argmax", "mean_variance"):
                kernel = self.kernel("column_reduce", T=dtype, OP=op, rows=256, cols=64)
                for rows, cols in ((2, 1), (300, 64), (1001, 37), (5, 1000)):
                    for x in self.each_offset(dtype, (rows, cols)):
                        self.check_reduction("column_reduce", op, kernel, x, cols)
                kernel = self.kernel("reduce_all", T=dtype, OP=op, n=1 << 16)
                for n in (2, 31, 4097, 70_001):
                    for x in self.each_offset(dtype, (n,)):
                        self.check_reduction("reduce_all", op, kernel, x, 1)

    @unittest.skipUnless(ON_GPU, "numpy has no fp8")
    def test_quantize_and_dequantize_fp8(self):
        for scale, columns in (("row", 1), ("block", 3)):
            quantize = self.kernel("quantize_fp8", T="bf16", SCALE=scale, rows=64, cols=264)
            dequantize = self.kernel("dequantize_fp8", T="bf16", SCALE=scale, rows=64, cols=264)
            x = ARRAYS.random(self.rng, "bf16", (33, 264))
            y = torch.zeros((33, 264), dtype=torch.float8_e4m3fn, device="cuda")
            scales = ARRAYS.poisoned("f32", (33, columns))
            quantize(x=x, y=y, scales=scales)
            segments = torch.nn.functional.pad(x.float().abs(), (0, 120)).reshape(33, 3, 128).amax(-1)
            amax = segments if scale == "block" else segments.amax(-1, keepdim=True)
            torch.testing.assert_close(scales, amax / 448, rtol=1e-6, atol=0)
            again = dequantize(x=y, scales=scales, out=ARRAYS.poisoned("bf16", (33, 264)))
            # Half a unit of fp8 in the last place, and of bf16.
            width = scales.repeat_interleave(128 if scale == "block" else 264, 1)[:, :264]
            allowed = x.float().abs() * (2.0**-4 + 2.0**-8) + width * 2.0**-10
            self.assertTrue(((again.float() - x.float()).abs() <= allowed).all())

    def matmul(self, template, dtypes, shapes):
        for dtype in dtypes:
            for n, k in shapes:
                kernel = self.kernel(template, T=dtype, m=128, n=n, k=k)
                for m in (0, 1, 130, 200):
                    for a in self.each_offset(dtype, (m, k)):
                        b = ARRAYS.random(self.rng, dtype, (k, n))
                        c = kernel(a=a, b=b, out=ARRAYS.poisoned(dtype, (m, n)))
                        expected = ARRAYS.on_host(a) @ ARRAYS.on_host(b)
                        self.assert_close(dtype, c, expected, 100, f"{template} {dtype} {m}x{n}x{k}")

    def test_matmul_tiled(self):
        self.matmul("matmul_tiled", ARRAYS.dtypes, ((128, 128), (65, 33)))

    @unittest.skipUnless(ON_GPU, "needs tensor cores")
    def test_matmul_mma(self):
        self.matmul("matmul_mma", ("f16", "bf16"), ((256, 256), (65, 33)))

    def test_arrays_with_gaps_are_refused_before_the_launch(self):
        copy = self.kernel("copy_1d", T="f32", n=1 << 16)
        rmsnorm = self.kernel("rmsnorm", T="f32", rows=64, cols=100)
        x = ARRAYS.random(self.rng, "f32", (200, 200))
        w = ARRAYS.random(self.rng, "f32", (100,))
        y, dense = ARRAYS.poisoned("f32", (200, 100)), ARRAYS.random(self.rng, "f32", (200, 100))
        for call in (
            lambda: copy(x[0, ::2], out=y[0]),
            lambda: copy(y[0], out=x[0, ::2]),
            lambda: rmsnorm(x[:, :100], w, y=y, eps=1e-5),
            lambda: rmsnorm(x[:, ::2], w, y=y, eps=1e-5),
            lambda: rmsnorm(dense, x[0, ::2], y=y, eps=1e-5),
        ):
            with self.assertRaisesRegex(errors.FailedPreconditionError, "has stride"):
                call()
        with self.assertRaisesRegex(errors.FailedPreconditionError, "overlap and must not"):
            rmsnorm(y, w, y=y, eps=1e-5)
        np.testing.assert_array_equal(ARRAYS.on_host(y), 77)


if __name__ == "__main__":
    unittest.main()
