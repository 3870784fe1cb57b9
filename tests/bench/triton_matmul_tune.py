#!/usr/bin/env python3
"""Triton's autotuner on the 48 tiles of kernels/matmul_mma: wall time and the winner's speed.

    python3 tests/bench/triton_matmul_tune.py [--size 4096] [--workers 1]

Prints one JSON object. Compiled kernels are kept nowhere: every run is cold. With --workers above 1 the
configs are compiled in that many processes first and the autotuner then finds them compiled, which is
more than Triton does by itself. The speed is the median of single launches behind a flushed L2.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import time

TILES = [
    dict(BM=bm, BN=bn, BK=bk, stages=stages, warps=warps)
    for bm in (64, 128)
    for bn in (64, 128, 256)
    for bk in (32, 64)
    for stages in (3, 4)
    for warps in (4, 8)
]


def make_kernel(tiles):
    import triton
    import triton.language as tl

    configs = [
        triton.Config(
            {"BM": t["BM"], "BN": t["BN"], "BK": t["BK"]}, num_stages=t["stages"], num_warps=t["warps"]
        )
        for t in tiles
    ]

    @triton.autotune(configs=configs, key=["M", "N", "K"])
    @triton.jit
    def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        # Neighbouring programs share strips, as in matmul_mma.
        tiles_m = tl.cdiv(M, BM)
        tiles_n = tl.cdiv(N, BN)
        at = tl.program_id(0)
        group = at // (8 * tiles_n) * 8
        height = min(tiles_m - group, 8)
        tile_m = group + at % (8 * tiles_n) % height
        tile_n = at % (8 * tiles_n) // height
        rows = tile_m * BM + tl.arange(0, BM)
        cols = tile_n * BN + tl.arange(0, BN)
        ks = tl.arange(0, BK)
        sums = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            piece_a = tl.load(a + rows[:, None] * K + (k + ks)[None, :])
            piece_b = tl.load(b + (k + ks)[:, None] * N + cols[None, :])
            sums = tl.dot(piece_a, piece_b, sums)
        tl.store(c + rows[:, None] * N + cols[None, :], sums.to(tl.bfloat16))

    return matmul


def launch(matmul, a, b, c):
    import triton

    m, k = a.shape
    n = b.shape[1]
    grid = lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)
    matmul[grid](a, b, c, m, n, k)


def matrices(size):
    import torch

    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return a, b, torch.empty(size, size, device="cuda", dtype=torch.bfloat16)


def compile_share(arguments):
    tiles, size = arguments
    matmul = make_kernel(tiles)
    a, b, c = matrices(size)
    launch(matmul, a, b, c)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()

    import torch
    import triton

    if options.workers > 1:
        # Importing and making contexts is not counted.
        spawn = multiprocessing.get_context("spawn")
        shares = [(TILES[i :: options.workers], 256) for i in range(options.workers)]
        with spawn.Pool(options.workers) as pool:
            pool.map(warm_up, range(options.workers))
            begin = time.perf_counter()
            pool.map(compile_share, shares, chunksize=1)
            compiled_s = time.perf_counter() - begin
    else:
        compiled_s = 0.0
    a, b, c = matrices(options.size)
    torch.cuda.synchronize()
    matmul = make_kernel(TILES)
    begin = time.perf_counter()
    launch(matmul, a, b, c)
    torch.cuda.synchronize()
    tuned_s = time.perf_counter() - begin

    right = torch.matmul(a, b)
    torch.testing.assert_close(c, right, atol=0.5, rtol=2e-2)
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")

    def median_ms(run):
        times = []
        for _ in range(30):
            flush.zero_()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            run()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
        return statistics.median(times)

    tflops = lambda ms: 2 * options.size**3 / ms / 1e9
    print(
        json.dumps(
            {
                "configs": len(TILES),
                "workers": options.workers,
                "tune_s": round(compiled_s + tuned_s, 2),
                "winner": str(matmul.best_config),
                "tflops": round(tflops(median_ms(lambda: launch(matmul, a, b, c))), 1),
                "cublas_tflops": round(tflops(median_ms(lambda: torch.matmul(a, b, out=c))), 1),
            }
        )
    )


def warm_up(_):
    import torch
    import triton

    torch.zeros(1, device="cuda")
    time.sleep(1)  # so that every process of the pool takes one


if __name__ == "__main__":
    main()
