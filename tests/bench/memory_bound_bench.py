#!/usr/bin/env python3
"""Memory-bound kernels as hone serves them, beside PyTorch, torch.compile and Liger, in one process.

    HONE_BIN=DIR HONE_KERNELS=DIR PYTHONPATH=DIR python3 tests/bench/memory_bound_bench.py [FAMILY...]

Starts a daemon of its own with an empty cache. Each kernel is timed untuned, tuned, and timed again from
Python; sides take turns on the same random inputs, the L2 flushed before each launch; medians of device
times. Outputs are held against double precision. Prints a table in Markdown, geometric means by family, and
one JSON object a line for each case; exits with 1 if an output was wrong. Liger is a peer where it is installed.
"""

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
FLUSH_BYTES = 256 << 20  # four times the L2 of an H200
ROW_SHAPES = ((64, 4096), (4096, 4096), (16384, 8192), (8192, 32768))
LONG_ROWS = (1024, 131072)
HAS_LIGER = importlib.util.find_spec("liger_kernel") is not None


class Case:
    """One problem: how hone is asked for it and called, and what a user would take instead."""

    def __init__(self, family, label, moved_bytes, template, params, call, expected, outputs, peers):
        self.family = family
        self.label = label
        self.moved_bytes = moved_bytes
        self.template = template
        self.params = params
        self.call = call  # of a kernel
        self.expected = expected  # () -> what outputs must hold, in higher precision
        self.outputs = outputs
        self.peers = peers  # name -> callable


def bf16(*shape):
    return torch.randn(*shape, device="cuda").to(torch.bfloat16)


def compiled(function, *arguments):
    torch._dynamo.reset()
    fast = torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)
    fast(*arguments)
    return lambda: fast(*arguments)


def of_torch(function, *arguments):
    return {
        "eager": lambda: function(*arguments),
        "compile": compiled(function, *arguments),
    }


def copies():
    for mib in (1, 16, 256, 4096):
        n = (mib << 20) // 4
        src = torch.randn(n, device="cuda")
        dst, other = torch.empty_like(src), torch.empty_like(src)
        yield Case(
            *("copy", f"{mib} MiB", 8 * n, "copy_1d", {"T": "F32", "n": n}),
            lambda kernel, src=src, dst=dst: kernel(src, out=dst),
            *(lambda src=src: (src,), (dst,)),
            {"eager": lambda src=src, other=other: other.copy_(src)},
        )


def transposes():
    for size in (4096, 16384):
        for dtype, name in ((torch.float32, "F32"), (torch.bfloat16, "BF16")):
            src = torch.randn(size, size, device="cuda").to(dtype)
            dst, other = torch.empty_like(src), torch.empty_like(src)
            yield Case(
                *("transpose", f"{size} x {size} {name}", 2 * src.numel() * src.element_size()),
                *("transpose", {"T": name, "rows": size, "cols": size}),
                lambda kernel, src=src, dst=dst: kernel(src, out=dst),
                *(lambda src=src: (src.t(),), (dst,)),
                {"eager": lambda src=src, other=other: other.copy_(src.t())},
            )


def row_problems():
    for rows, cols in (*ROW_SHAPES, LONG_ROWS):
        yield rows, cols, f"{rows} x {cols}", {"T": "BF16", "rows": rows, "cols": cols}


def softmaxes():
    for rows, cols, label, params in row_problems():
        x = bf16(rows, cols)
        y = torch.empty_like(x)
        peers = of_torch(lambda x: torch.softmax(x, -1), x)
        if HAS_LIGER and cols <= 65536:
            from liger_kernel.ops.softmax import LigerSoftmaxFunction

            peers["liger"] = lambda x=x: LigerSoftmaxFunction.apply(x)
        yield Case(
            *("softmax", label, 4 * x.numel(), "softmax", params),
            lambda kernel, x=x, y=y: kernel(x, out=y),
            *(lambda x=x: (torch.softmax(x.float(), -1),), (y,)),
            peers,
        )


def rmsnorms():
    for rows, cols, label, params in row_problems():
        x, w = bf16(rows, cols), bf16(cols)
        y = torch.empty_like(x)
        peers = of_torch(lambda x, w: F.rms_norm(x, (x.shape[1],), w, 1e-6), x, w)
        if HAS_LIGER and cols <= 65536:
            from liger_kernel.ops.rms_norm import LigerRMSNormFunction

            peers["liger"] = lambda x=x, w=w: LigerRMSNormFunction.apply(x, w, 1e-6)
        yield Case(
            *("rmsnorm", label, 4 * x.numel(), "rmsnorm", params),
            lambda kernel, x=x, w=w, y=y: kernel(x, w, out=y, eps=1e-6),
            lambda x=x, w=w: (F.rms_norm(x.float(), (x.shape[1],), w.float(), 1e-6),),
            *((y,), peers),
        )


def swiglus():
    for rows, cols, label, params in row_problems():
        if (rows, cols) == LONG_ROWS:
            continue
        a, b = bf16(rows, cols), bf16(rows, cols)
        y = torch.empty_like(a)
        peers = of_torch(lambda a, b: F.silu(a) * b, a, b)
        if HAS_LIGER and cols <= 65536:
            from liger_kernel.ops.swiglu import LigerSiLUMulFunction

            peers["liger"] = lambda a=a, b=b: LigerSiLUMulFunction.apply(a, b)
        yield Case(
            *("swiglu", label, 6 * a.numel(), "elementwise"),
            {"f": "swiglu", "A": "BF16", "rows": rows, "cols": cols},
            lambda kernel, a=a, b=b, y=y: kernel(a, b, out=y),
            *(lambda a=a, b=b: (F.silu(a.float()) * b.float(),), (y,)),
            peers,
        )


def row_sums():
    for rows, cols, label, params in row_problems():
        x = bf16(rows, cols)
        y = torch.empty(rows, device="cuda")
        yield Case(
            *("row sum", label, 2 * x.numel(), "row_sum", params),
            lambda kernel, x=x, y=y: kernel(x, out=y),
            *(lambda x=x: (x.double().sum(-1),), (y,)),
            of_torch(lambda x: x.sum(-1), x),
        )


FAMILIES = {
    "copy": copies,
    "transpose": transposes,
    "softmax": softmaxes,
    "rmsnorm": rmsnorms,
    "swiglu": swiglus,
    "row_sum": row_sums,
}


def median_us(sides, flush):
    """Device times of each side, which take turns."""
    times = {name: [] for name in sides}
    for function in sides.values():
        for _ in range(WARM_UP):
            function()
    order = list(sides.items())
    for round_number in range(ROUNDS):
        first = round_number % len(order)
        for name, function in order[first:] + order[:first]:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
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
    for output, expected in zip(case.outputs, case.expected()):
        expected = expected.to(torch.float64)
        # Half a unit in the last place of BF16 and what sums in single precision are off by.
        tolerance = 8e-3 * expected.abs() + 1e-5 * max(1.0, math.sqrt(case.moved_bytes) / 1e3)
        worst = ((output.to(torch.float64) - expected).abs() - tolerance).max().item()
        if not worst <= 0:
            return f"off by {worst:.3g} beyond the tolerance"
    return ""


def measure(case, daemon, client, flush):
    parameters = [f"{name}={value}" for name, value in case.params.items()]
    asked = {
        name: value.lower() if value in ("BF16", "F32") else value
        for name, value in ((n, v) for n, v in case.params.items())
    }
    kernel = client.kernel(case.template, **asked).prepare()
    case.call(kernel)
    untuned_us = median_us({"hone": lambda: case.call(kernel)}, flush)["hone"]
    began = time.perf_counter()
    daemon.hone("tune", case.template, *parameters)
    tune_s = time.perf_counter() - began
    end = time.monotonic() + 20
    while client.refresh() == 0 and kernel.source != "TUNED" and time.monotonic() < end:
        time.sleep(0.02)
    for output in case.outputs:
        output.fill_(77)
    case.call(kernel)
    torch.cuda.synchronize()
    problem = wrong(case)
    # A copy of as many bytes is the bandwidth that this device has for them.
    half = torch.empty(case.moved_bytes // 2, dtype=torch.uint8, device="cuda")
    to = torch.empty_like(half)
    sides = {"hone": lambda: case.call(kernel), **case.peers, "copy": lambda: to.copy_(half)}
    us = median_us(sides, flush)
    best = min(us[name] for name in case.peers if name != "liger")
    result = {
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
    return result


def geometric_mean(values):
    return math.exp(statistics.mean(math.log(value) for value in values))


def main():
    names = sys.argv[1:] or list(FAMILIES)
    unknown = [name for name in names if name not in FAMILIES]
    if unknown:
        sys.exit(f"no family {unknown[0]!r}; there are {', '.join(FAMILIES)}")
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    results = []
    print("| kernel | shape | us | GB/s | of copy | eager | compile | liger | tune s | untuned |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        daemon = LocalDaemon(directory, "--device", "cuda")
        client = hone_client.connect(daemon.endpoint)
        for name in names:
            torch.manual_seed(0)
            for case in FAMILIES[name]():
                result = measure(case, daemon, client, flush)
                results.append(result)
                us = result["us"]
                ratios = [
                    f"{us[peer] / us['hone']:.2f}" if peer in us else ""
                    for peer in ("eager", "compile", "liger")
                ]
                cells = (
                    *(result["family"], result["shape"], us["hone"], result["gb_per_s"]),
                    *(result["of_copy"], *ratios, result["tune_s"], result["untuned"]),
                )
                print("|", " | ".join(str(cell) for cell in cells), "|", result["wrong"])
                del case
        daemon.kill()
    for result in results:
        print(json.dumps(result))
    for family in dict.fromkeys(result["family"] for result in results):
        ratios = [result["ratio"] for result in results if result["family"] == family]
        print(f"{family}: geometric mean {geometric_mean(ratios):.3f}, least {min(ratios):.3f}")
    sys.exit(any(result["wrong"] for result in results))


if __name__ == "__main__":
    main()
