#!/usr/bin/env python3
"""From a new process with a CUDA context to the end of its first launch of a kernel that is cached.

    python3 tests/bench/first_launch_bench.py [ENDPOINT]

hone: connecting, asking the daemon, loading, launching, and waiting for the result; Triton: the same
kernel from its warm disk cache. Importing either library and making the context are not counted, and
said beside, as are hone's steps. Processes alternate; medians. Needs a GPU, PyTorch, Triton, the hone_client wheel and a
daemon. Prints one JSON object a line for each figure.
"""

import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import time

ROUNDS = 5


class Steps:
    """Milliseconds of what is done one after the other."""

    def __init__(self):
        self.ms = {}
        self.last = time.perf_counter()

    def end(self, name):
        now = time.perf_counter()
        self.ms[name] = 1e3 * (now - self.last)
        self.last = now


def launch_once(side, endpoint):
    """In a process of its own."""
    import torch

    rows, cols = 4, 1024
    x = torch.randn(rows, cols, dtype=torch.bfloat16, device="cuda")
    w = torch.rand(cols, dtype=torch.bfloat16, device="cuda")
    y = torch.empty_like(x)
    expected = torch.nn.functional.rms_norm(x.float(), (cols,), w.float(), 1e-6)
    torch.cuda.synchronize()
    steps = Steps()
    if side == "hone":
        import hone_client
    else:
        # The kernel of the other benchmark, which is compiled by Triton at its first launch.
        path = pathlib.Path(__file__).with_name("python_call_bench.py")
        spec = importlib.util.spec_from_file_location("python_call_bench", path)
        peer = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(peer)
    steps.end("import")
    began = time.perf_counter()
    if side == "hone":
        client = hone_client.connect(endpoint)
        kernel = client.kernel("rmsnorm", T=x.dtype, rows=rows, cols=cols)
        steps.end("first_launch_name_the_kernel")
        kernel.prepare()
        steps.end("first_launch_prepare")
        kernel(x, w, out=y, eps=1e-6)
    else:
        peer.triton_rmsnorm[(rows,)](y, x, w, 1e-6, rows, cols)
    torch.cuda.synchronize()
    steps.end("first_launch_run")
    steps.ms["first_launch"] = 1e3 * (time.perf_counter() - began)
    torch.testing.assert_close(y.float(), expected, atol=2e-2, rtol=2e-2)
    print(json.dumps(steps.ms))


def main():
    endpoint = sys.argv[1] if len(sys.argv) > 1 else ""
    seen = {"hone": [], "triton": []}
    for round_number in range(-1, ROUNDS):  # the first fills both caches
        for side, results in seen.items():
            command = [sys.executable, __file__, endpoint, side]
            line = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            if round_number >= 0:
                results.append(json.loads(line.splitlines()[-1]))
    for what in seen["hone"][0]:
        line = {"figure": what, "unit": "ms"}
        line["value"] = statistics.median(result[what] for result in seen["hone"])
        if what in ("import", "first_launch"):
            line["peer"] = "triton, warm disk cache"
            line["peer_value"] = statistics.median(result[what] for result in seen["triton"])
            line["ratio"] = line["value"] / line["peer_value"]
        print(json.dumps({
            key: round(value, 4) if isinstance(value, float) else value
            for key, value in line.items()
        }), flush=True)  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) > 2:
        launch_once(sys.argv[2], sys.argv[1] or None)
    else:
        main()
