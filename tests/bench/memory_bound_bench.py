#!/usr/bin/env python3
"""Memory-bound kernels as hone serves them, beside PyTorch, torch.compile and Liger, in one process.

    HONE_BIN=DIR HONE_KERNELS=DIR PYTHONPATH=DIR python3 tests/bench/memory_bound_bench.py [--host-time] [FAMILY...]

Starts a daemon of its own with an empty cache. Each kernel is timed untuned, tuned, and timed again from
Python; sides take turns on the same random inputs, the L2 flushed before each launch; medians of device
times. With --host-time launches are enqueued as soon as the flush is, so that a launch that takes the
host longer than the flush takes the device shows. Outputs are held against double precision. Prints a table in Markdown, geometric means by family, and
one JSON object a line for each case; exits with 1 if an output was wrong. Liger is a peer where it is installed.
"""

import importlib
import importlib.util
import json
import math
import statistics
import sys
import tempfile
import time
import pathlib

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "client"))

import hone_client
from local_daemon import LocalDaemon

ROUNDS = 31
WARM_UP = 4
# The host enqueues a launch while the device waits, so that no time of the host's is measured.
AHEAD_CYCLES = 400_000
FLUSH_BYTES = 256 << 20  # four times the L2 of an H200
ROW_SHAPES = ((64, 4096), (4096, 4096), (16384, 8192), (8192, 32768))
LONG_ROWS = (1024, 131072)
EPS = 1e-6
FP8_MAX = 448  # of e4m3
DTYPES = ("F32", "BF16", "F8E4M3")
HAS_LIGER = importlib.util.find_spec("liger_kernel") is not None


class Case:
    """One problem: how hone is asked for it and called, and what a user would take instead."""

    def __init__(self, family, label, template, params, inputs, outputs, *, expected, peers,
                 scalars=None, moved_bytes=0):  # fmt: skip
        self.family = family
        self.label = label
        self.template = template
        self.params = params
        self.outputs = outputs  # by name; so are inputs and scalars
        self.arguments = {**inputs, **outputs, **(scalars or {})}
        self.expected = expected  # () -> by name, what outputs must hold, in higher precision
        self.peers = peers  # name -> callable
        self.moved_bytes = moved_bytes or sum(
            array.numel() * array.element_size() for array in (*inputs.values(), *outputs.values())
        )

    def call(self, kernel):
        kernel(**self.arguments)


def bf16(*shape):
    return torch.randn(*shape, device="cuda").to(torch.bfloat16)


def of_torch(function, *arguments):
    """The better of the two is whom a family's ratio is against."""
    torch._dynamo.reset()
    compiled = torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)
    compiled(*arguments)
    return {"eager": lambda: function(*arguments), "compile": lambda: compiled(*arguments)}


def of_liger(module, name, *arguments):
    """Liger's kernel, where it is installed and takes rows this long."""
    if not HAS_LIGER or arguments[0].shape[-1] > 65536:
        return {}
    function = getattr(importlib.import_module(f"liger_kernel.ops.{module}"), name)
    return {"liger": lambda: function.apply(*arguments)}


def copies():
    for mib in (1, 16, 256, 4096):
        n = (mib << 20) // 4
        src = torch.randn(n, device="cuda")
        dst, other = torch.empty_like(src), torch.empty_like(src)
        yield Case(
            *("copy", f"{mib} MiB", "copy_1d", {"T": "F32", "n": n}, {"src": src}, {"dst": dst}),
            expected=lambda src=src: {"dst": src},
            peers={"eager": lambda src=src, other=other: other.copy_(src)},
        )


def transposes():
    for size in (4096, 16384):
        for dtype, name in ((torch.float32, "F32"), (torch.bfloat16, "BF16")):
            src = torch.randn(size, size, device="cuda").to(dtype)
            dst, other = torch.empty_like(src), torch.empty_like(src)
            yield Case(
                *("transpose", f"{size} x {size} {name}", "transpose"),
                {"T": name, "rows": size, "cols": size},
                *({"src": src.unsqueeze(0)}, {"dst": dst.unsqueeze(0)}),
                expected=lambda src=src: {"dst": src.t().unsqueeze(0)},
                peers={"eager": lambda src=src, other=other: other.copy_(src.t())},
            )


def permutes():
    for order, shape in (
        *(("0213", (16, 2048, 32, 128)), ("0231", (16, 2048, 32, 128))),
        *(("3210", (64, 64, 128, 256)), ("1032", (64, 64, 128, 256)), ("1203", (256, 256, 512, 4))),
    ):
        axes = tuple(int(axis) for axis in order)
        src = bf16(*shape)
        dst = torch.empty([shape[axis] for axis in axes], dtype=src.dtype, device="cuda")
        other = torch.empty_like(dst)
        yield Case(
            *("permute", f"{order} of {' x '.join(map(str, shape))}", "permute"),
            {"T": "BF16", "ORDER": order, **{f"d{i}": extent for i, extent in enumerate(shape)}},
            *({"src": src}, {"dst": dst}),
            expected=lambda src=src, axes=axes: {"dst": src.permute(axes)},
            peers={"eager": lambda s=src, axes=axes, o=other: o.copy_(s.permute(axes))},
        )


def row_problems(long_rows=True):
    for rows, cols in (*ROW_SHAPES, *([LONG_ROWS] if long_rows else [])):
        yield rows, cols, f"{rows} x {cols}", {"T": "BF16", "rows": rows, "cols": cols}


def softmaxes():
    for rows, cols, label, params in row_problems():
        x = bf16(rows, cols)
        yield Case(
            *("softmax", label, "softmax", params, {"x": x}, {"y": torch.empty_like(x)}),
            expected=lambda x=x: {"y": torch.softmax(x.float(), -1)},
            peers={
                **of_torch(lambda x: torch.softmax(x, -1), x),
                **of_liger("softmax", "LigerSoftmaxFunction", x),
            },
        )


def rmsnorms():
    for rows, cols, label, params in row_problems():
        x, w = bf16(rows, cols), bf16(cols)
        yield Case(
            *("rmsnorm", label, "rmsnorm", params),
            *({"x": x, "weight": w}, {"y": torch.empty_like(x)}),
            scalars={"eps": EPS},
            expected=lambda x=x, w=w: {"y": F.rms_norm(x.float(), (x.shape[1],), w.float(), EPS)},
            peers={
                **of_torch(lambda x, w: F.rms_norm(x, (x.shape[1],), w, EPS), x, w),
                **of_liger("rms_norm", "LigerRMSNormFunction", x, w, EPS),
            },
        )


def layernorms():
    for rows, cols, label, params in row_problems():
        x, w, b = bf16(rows, cols), bf16(cols), bf16(cols)
        norm = lambda x, w, b: F.layer_norm(x, (x.shape[1],), w, b, EPS)  # noqa: E731
        yield Case(
            *("layernorm", label, "layernorm", params),
            *({"x": x, "weight": w, "bias": b}, {"y": torch.empty_like(x)}),
            scalars={"eps": EPS},
            expected=lambda x=x, w=w, b=b, norm=norm: {"y": norm(x.float(), w.float(), b.float())},
            peers={
                **of_torch(norm, x, w, b),
                **of_liger("layer_norm", "LigerLayerNormFunction", x, w, b, EPS),
            },
        )


def add_rmsnorms():
    def add_norm(x, r, w):
        h = x + r
        return F.rms_norm(h, (h.shape[1],), w, EPS), h

    def expected(x, r, w):
        h = x + r
        return {"y": F.rms_norm(h.float(), (h.shape[1],), w.float(), EPS), "h": h}

    for rows, cols, label, params in row_problems():
        x, r, w = bf16(rows, cols), bf16(rows, cols), bf16(cols)
        yield Case(
            *("add+rmsnorm", label, "rmsnorm", {**params, "RESIDUAL": "true"}),
            {"x": x, "residual": r, "weight": w},
            {"y": torch.empty_like(x), "h": torch.empty_like(x)},
            scalars={"eps": EPS},
            expected=lambda x=x, r=r, w=w: expected(x, r, w),
            peers={
                **of_torch(add_norm, x, r, w),
                **of_liger("fused_add_rms_norm", "LigerFusedAddRMSNormFunction", x, r, w, EPS),
            },
        )


def add_rmsnorms_to_fp8():
    def quantised(x, r, w):
        h = x + r
        y = F.rms_norm(h, (h.shape[1],), w, EPS).float()
        scale = y.abs().amax(-1, keepdim=True) / FP8_MAX
        return (y / scale).to(torch.float8_e4m3fn), h, scale

    def expected(x, r, w):
        h = x + r
        y = F.rms_norm(h.float(), (h.shape[1],), w.float(), EPS)
        scale = y.abs().amax(-1, keepdim=True) / FP8_MAX
        return {"y": y / scale, "h": h, "y_scale": scale}

    for rows, cols, label, params in row_problems(long_rows=False):
        x, r, w = bf16(rows, cols), bf16(rows, cols), bf16(cols)
        yield Case(
            *("add+rmsnorm+fp8", label, "rmsnorm", {**params, "RESIDUAL": "true", "OUT": "F8E4M3"}),
            {"x": x, "residual": r, "weight": w},
            {
                "y": torch.empty(rows, cols, dtype=torch.float8_e4m3fn, device="cuda"),
                "h": torch.empty_like(x),
                "y_scale": torch.empty(rows, 1, device="cuda"),
            },
            scalars={"eps": EPS},
            expected=lambda x=x, r=r, w=w: expected(x, r, w),
            peers=of_torch(quantised, x, r, w),
        )


def swiglus():
    for rows, cols, label, _ in row_problems(long_rows=False):
        a, b = bf16(rows, cols), bf16(rows, cols)
        yield Case(
            *("swiglu", label, "elementwise"),
            {"f": "swiglu", "A": "BF16", "rows": rows, "cols": cols},
            *({"a": a, "b": b}, {"out": torch.empty_like(a)}),
            expected=lambda a=a, b=b: {"out": F.silu(a.float()) * b.float()},
            peers={
                **of_torch(lambda a, b: F.silu(a) * b, a, b),
                **of_liger("swiglu", "LigerSiLUMulFunction", a, b),
            },
        )


def row_sums():
    for rows, cols, label, params in row_problems():
        x = bf16(rows, cols)
        yield Case(
            *("row sum", label, "row_reduce", params),
            *({"x": x}, {"y": torch.empty(rows, device="cuda")}),
            expected=lambda x=x: {"y": x.double().sum(-1)},
            peers=of_torch(lambda x: x.sum(-1), x),
        )


def ropes():
    """Rotation of queries and keys after their normalisation, keys and values into the cache."""
    q_heads, kv_heads, head_dim, slots_count = 32, 8, 128, 65536

    def rotate(x, cos, sin):
        low, high = x.chunk(2, -1)
        return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)

    def chain(q, k, v, positions, slots, table, q_weight, k_weight, k_cache, v_cache):
        cos, sin = table[positions].unsqueeze(1).chunk(2, -1)
        normed_q = F.rms_norm(q.float(), (head_dim,), q_weight.float(), EPS)
        normed_k = F.rms_norm(k.float(), (head_dim,), k_weight.float(), EPS)
        k_cache[slots] = rotate(normed_k, cos, sin).to(k_cache.dtype)
        v_cache[slots] = v
        return rotate(normed_q, cos, sin).to(q.dtype)

    angles = torch.arange(8192, device="cuda").unsqueeze(1) * 10000.0 ** (
        -torch.arange(0, head_dim, 2, device="cuda") / head_dim
    )
    table = torch.cat((angles.cos(), angles.sin()), -1).float().contiguous()
    for tokens in (1, 64, 4096, 32768):
        q, k, v = (bf16(tokens, heads, head_dim) for heads in (q_heads, kv_heads, kv_heads))
        weights = bf16(head_dim), bf16(head_dim)
        positions = torch.randint(8192, (tokens,), device="cuda")
        slots = torch.randperm(slots_count, device="cuda")[:tokens].contiguous()
        caches = [bf16(slots_count, kv_heads, head_dim) for _ in range(2)]
        theirs = [cache.clone() for cache in caches]
        kept = [cache.clone() for cache in caches]

        def expected(q=q, k=k, v=v, positions=positions, slots=slots, weights=weights, kept=kept):
            k_cache, v_cache = (cache.clone() for cache in kept)
            q_out = chain(q, k, v, positions, slots, table, *weights, k_cache, v_cache)
            return {"q_out": q_out, "k_cache": k_cache, "v_cache": v_cache}

        rows = (2 * q_heads + 4 * kv_heads) * head_dim * 2 + 16 + 4 * head_dim
        yield Case(
            *("rope+norm+append", f"{tokens} tokens", "rope_norm_append"),
            {"T": "BF16", "tokens": tokens, "q_heads": q_heads, "kv_heads": kv_heads,
             "cache_slots": slots_count},  # fmt: skip
            {"q": q, "k": k, "v": v, "positions": positions, "slots": slots, "rotation": table,
             "q_weight": weights[0], "k_weight": weights[1]},  # fmt: skip
            {"q_out": torch.empty_like(q), "k_cache": caches[0], "v_cache": caches[1]},
            scalars={"eps": EPS},
            expected=expected,
            peers=of_torch(chain, q, k, v, positions, slots, table, *weights, *theirs),
            moved_bytes=tokens * rows,
        )


FAMILIES = {
    "copy": copies,
    "transpose": transposes,
    "permute": permutes,
    "softmax": softmaxes,
    "rmsnorm": rmsnorms,
    "layernorm": layernorms,
    "add_rmsnorm": add_rmsnorms,
    "add_rmsnorm_fp8": add_rmsnorms_to_fp8,
    "swiglu": swiglus,
    "row_sum": row_sums,
    "rope": ropes,
}


def median_us(sides, flush, ahead_cycles=AHEAD_CYCLES):
    """Times of each side, which take turns."""
    times = {name: [] for name in sides}
    for function in sides.values():
        for _ in range(WARM_UP):
            function()
    order = list(sides.items())
    for round_number in range(ROUNDS):
        first = round_number % len(order)
        for name, function in order[first:] + order[:first]:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(ahead_cycles)
            flush.zero_()
            begin.record()
            function()
            end.record()
            times[name].append((begin, end))
        torch.cuda.synchronize()
    return {
        name: 1e3 * statistics.median(begin.elapsed_time(end) for begin, end in pairs)
        for name, pairs in times.items()
    }


def wrong(case):
    """What is wrong with the outputs; nothing if they are right."""
    for name, expected in case.expected().items():
        output = case.outputs[name].to(torch.float64)
        expected = expected.to(torch.float64)
        # A unit in the last place, and what sums in single precision are off by.
        relative, least = {torch.float8_e4m3fn: (0.125, 2**-9), torch.bfloat16: (8e-3, 0)}.get(
            case.outputs[name].dtype, (1e-5, 0)
        )
        tolerance = relative * expected.abs() + least
        tolerance += 1e-5 * max(1.0, math.sqrt(case.moved_bytes) / 1e3)
        worst = ((output - expected).abs() - tolerance).max().item()
        if not worst <= 0:
            return f"{name} is off by {worst:.3g} beyond the tolerance"
    return ""


def measure(case, daemon, client, flush, ahead_cycles):
    assigned = [f"{name}={value}" for name, value in case.params.items()]
    params = {
        name: {"true": True}.get(value, value.lower() if value in DTYPES else value)
        for name, value in case.params.items()
    }
    kernel = client.kernel(case.template, **params).prepare()
    untuned_us = median_us({"hone": lambda: case.call(kernel)}, flush, ahead_cycles)["hone"]
    began = time.perf_counter()
    daemon.hone("tune", case.template, *assigned)
    tune_s = time.perf_counter() - began
    end = time.monotonic() + 20
    while kernel.source != "TUNED" and time.monotonic() < end:
        time.sleep(0.02)
        client.refresh()
    for name, output in case.outputs.items():
        if not name.endswith("cache"):
            output.copy_(torch.full_like(output, 77, dtype=torch.float32).to(output.dtype))
    case.call(kernel)
    torch.cuda.synchronize()
    problem = wrong(case)
    # A copy of as many bytes is the bandwidth that this device has for them.
    half = torch.empty(case.moved_bytes // 2, dtype=torch.uint8, device="cuda")
    to = torch.empty_like(half)
    sides = {"hone": lambda: case.call(kernel), **case.peers, "copy": lambda: to.copy_(half)}
    us = median_us(sides, flush, ahead_cycles)
    best = min(us[name] for name in case.peers if name != "liger")
    return {
        "family": case.family,
        "shape": case.label,
        "us": {name: round(value, 2) for name, value in us.items()},
        "ratio": round(best / us["hone"], 3),
        "liger_ratio": round(us["liger"] / us["hone"], 3) if "liger" in us else None,
        "of_copy": round(us["copy"] / us["hone"], 3),
        "gb_per_s": round(case.moved_bytes / us["hone"] / 1e3, 1),
        "tune_s": round(tune_s, 2),
        "untuned": round(us["hone"] / untuned_us, 3),
        "config": kernel.config,
        "source": kernel.source,
        "wrong": problem,
    }


def geometric_mean(values):
    return math.exp(statistics.mean(math.log(value) for value in values))


def row_of(result):
    us = result["us"]
    ratios = [
        f"{us[peer] / us['hone']:.2f}" if peer in us else "" for peer in ("eager", "compile", "liger")
    ]
    cells = (
        *(result["family"], result["shape"], us["hone"], result["gb_per_s"], result["of_copy"]),
        *(*ratios, result["tune_s"], result["untuned"], result["wrong"]),
    )
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def main():
    names = [name for name in sys.argv[1:] if name != "--host-time"]
    ahead_cycles = AHEAD_CYCLES if names == sys.argv[1:] else 0
    names = names or list(FAMILIES)
    unknown = [name for name in names if name not in FAMILIES]
    if unknown:
        sys.exit(f"no family {unknown[0]!r}; there are {', '.join(FAMILIES)}")
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    results, failures = [], 0
    print("| kernel | shape | us | GB/s | of copy | eager | compile | liger | tune s | untuned | wrong |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        daemon = LocalDaemon(directory, "--device", "cuda")
        client = hone_client.connect(daemon.endpoint)
        for name in names:
            torch.manual_seed(0)
            for case in FAMILIES[name]():
                try:
                    result = measure(case, daemon, client, flush, ahead_cycles)
                except Exception as error:  # the other problems have their figures all the same
                    print(f"| {case.family} | {case.label} | {error} |")
                    failures += 1
                    continue
                results.append(result)
                print(row_of(result))
        daemon.kill()
    for result in results:
        print(json.dumps(result))
    for family in dict.fromkeys(result["family"] for result in results):
        of_family = [result for result in results if result["family"] == family]
        ratios = [result["ratio"] for result in of_family]
        line = f"{family}: geometric mean {geometric_mean(ratios):.3f}, least {min(ratios):.3f}"
        liger = [result["liger_ratio"] for result in of_family if result["liger_ratio"]]
        print(line + (f"; of Liger {geometric_mean(liger):.3f}" if liger else ""))
    sys.exit(failures > 0 or any(result["wrong"] for result in results))


if __name__ == "__main__":
    main()
