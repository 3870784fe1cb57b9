#!/usr/bin/env python3
"""What a call of a kernel with three tensors costs the host in Python, beside a cached Triton launch
and, where apache-tvm-ffi and g++ are installed, a launch of a plain kernel through that.

    python3 tests/bench/python_call_bench.py [ENDPOINT]

Needs a GPU, PyTorch, Triton, the hone_client wheel and a daemon. Rounds are interleaved; the stream is
drained outside of the timed part. Prints one JSON object a line for each figure.
"""

import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import triton
import triton.language as tl

import hone_client

ROUNDS = 60
CALLS = 200  # fewer than a stream takes before it makes the host wait


@triton.jit
def triton_rmsnorm(y, x, w, eps, rows, COLS: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, COLS)
    values = tl.load(x + row * COLS + columns).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values) / COLS + eps)
    tl.store(y + row * COLS + columns, values * scale * tl.load(w + columns).to(tl.float32))


PLAIN_RMSNORM = """
extern "C" __global__ void plain_rmsnorm(unsigned short* y, const unsigned short* x,
                                         const unsigned short* weight, float eps, long long rows) {
  __shared__ float sums[8];
  const long long at = (long long)blockIdx.x * 1024;
  float values[4], sum = 0;
  for (int i = 0; i < 4; ++i) {
    values[i] = __uint_as_float((unsigned)x[at + threadIdx.x + 256 * i] << 16);
    sum += values[i] * values[i];
  }
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(~0u, sum, lane);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < 8; ++i) sum += sums[i];
  const float scale = rsqrtf(sum / 1024 + eps);
  for (int i = 0; i < 4; ++i) {
    const int column = threadIdx.x + 256 * i;
    const float w = __uint_as_float((unsigned)weight[column] << 16);
    y[at + column] = (__float_as_uint(values[i] * scale * w) + 0x8000u) >> 16;
  }
}
"""


def tvm_ffi_call(x, w, y):
    """A launch of PLAIN_RMSNORM through apache-tvm-ffi; None where that cannot be built."""
    if importlib.util.find_spec("tvm_ffi") is None:
        print("without apache-tvm-ffi: not installed")
        return None
    import tvm_ffi

    root = pathlib.Path(tvm_ffi.__file__).parent
    library = pathlib.Path(tempfile.mkdtemp()) / "launch.so"
    subprocess.run(
        [
            *("g++", "-std=c++17", "-O2", "-shared", "-fPIC", "-o", str(library)),
            *(f"-I{root / 'include'}", f"-I{root / '3rdparty' / 'dlpack' / 'include'}"),
            str(pathlib.Path(__file__).with_name("tvm_ffi_launch.cc")),
        ],
        check=True,
    )
    launch = tvm_ffi.load_module(str(library)).launch
    # Kept, or its module is unloaded.
    kernel = torch.cuda._compile_kernel(PLAIN_RMSNORM, "plain_rmsnorm")
    function = kernel.func.value
    return lambda kept=kernel: launch(function, x.shape[0], 256, y, x, w, 1e-6)


def figure(name, value, unit, peer=None, peer_value=None):
    line = {"figure": name, "value": round(value, 4), "unit": unit}
    if peer:
        line |= {"peer": peer, "peer_value": round(peer_value, 4)}
        line["ratio"] = round(value / peer_value, 4)
    print(json.dumps(line), flush=True)


def main():
    client = hone_client.connect(*sys.argv[1:2])
    rows, cols = 4, 1024
    x = torch.randn(rows, cols, dtype=torch.bfloat16, device="cuda")
    w = torch.rand(cols, dtype=torch.bfloat16, device="cuda")
    y = torch.empty_like(x)
    began = time.perf_counter()
    kernel = client.kernel("rmsnorm", T=x.dtype, rows=rows, cols=cols).prepare()
    print(f"prepared in {1e3 * (time.perf_counter() - began):.1f} ms: {kernel.source} {kernel.config}")
    expected = torch.nn.functional.rms_norm(x.float(), (cols,), w.float(), 1e-6)

    calls = {
        "hone": lambda: kernel(x, w, out=y, eps=1e-6),
        "triton": lambda: triton_rmsnorm[(rows,)](y, x, w, 1e-6, rows, cols),
    }
    through_tvm_ffi = tvm_ffi_call(x, w, y)
    if through_tvm_ffi:
        calls["tvm_ffi"] = through_tvm_ffi
    for name, call in calls.items():
        y.zero_()
        call()
        torch.testing.assert_close(y.float(), expected, atol=2e-2, rtol=2e-2, msg=name)

    times = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(CALLS):
                call()
            times[name].append((time.perf_counter() - began) / CALLS * 1e6)
    torch.cuda.synchronize()
    median = {name: statistics.median(values) for name, values in times.items()}
    figure("python_call", median["hone"], "us", "triton, cached", median["triton"])
    if "tvm_ffi" in median:
        figure("python_call", median["hone"], "us", "apache-tvm-ffi", median["tvm_ffi"])


if __name__ == "__main__":
    main()
