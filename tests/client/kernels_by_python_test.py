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
            types = ("T", "A", "OUT", "I")
            assigned = [f"{name}={value.upper() if name in types else value}" for name, value in params.items()]
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
        for dtype in ARRAYS.dtypes:
            kernel = self.kernel("transpose", T=dtype, rows=128, cols=128)
            for rows, cols in ((0, 5), (5, 0), (1, 1), (128, 128), (129, 127), (24, 1000)):
                for src in self.each_offset(dtype, (rows, cols)):
                    dst = kernel(src, out=ARRAYS.poisoned(dtype, (cols, rows)))
                    np.testing.assert_array_equal(ARRAYS.on_host(dst), ARRAYS.on_host(src).T)

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
            "mean_var": lambda x: x.mean(axis=1),
        }
        for name, compute in operations.items():
            self.by_rows(
                *("row_reduce", lambda rows, cols: (rows,), "f32", lambda x: (compute(x), 100)),
                params={"OP": name},
            )

    def test_row_reduce_finds_the_first_largest_and_the_variance(self):
        for dtype in ARRAYS.dtypes:
            argmax = self.kernel("row_reduce", T=dtype, rows=64, cols=100, OP="argmax")
            moments = self.kernel("row_reduce", T=dtype, rows=64, cols=100, OP="mean_var")
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
                    self.assert_close("f32", variance, values.var(axis=1), 10, "variance")

    def test_cross_entropy(self):
        for dtype in ARRAYS.dtypes:
            for wide in ("i32", "i64"):
                kernel = self.kernel("cross_entropy", T=dtype, I=wide, rows=64, cols=100)
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
