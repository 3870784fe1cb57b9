#!/usr/bin/env python3
"""Tunes through the hone command on a GPU: time against Triton's autotuner, and whether winners last.

    python3 tests/bench/tune_bench.py [--bin DIR] [matmul|repeat|twins|load ...]

matmul  the 48 tiles of kernels/matmul_mma cold, three times with the store cleared, beside Triton's
        autotuner on the same tiles with one and with as many workers; then with the store warm
repeat  20 tunes of one space with the store cleared; the winners are then measured side by side
twins   20 tunes, with the store cleared, of a space whose configs come in pairs of identical code
load    tunes while a competing process keeps the GPU busy for half of the time

Without a name, all of them. --bin is where hone and honed lie (default: PATH). matmul and load need
PyTorch, matmul Triton too. Prints one JSON object a line for each figure.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
RUNS = 20


def figure(name, value, unit, peer=None, peer_value=None):
    line = {"figure": name, "value": value, "unit": unit}
    if peer:
        line |= {"peer": peer, "peer_value": peer_value, "ratio": round(value / peer_value, 4)}
    print(json.dumps(line), flush=True)


class Daemon:
    """A honed with an empty store in a directory of its own."""

    def __init__(self, bin_dir):
        self.bin = bin_dir

    def __enter__(self):
        self.directory = tempfile.mkdtemp()
        self.endpoint = f"unix:{self.directory}/s"
        log = open(f"{self.directory}/log", "w")
        self.process = subprocess.Popen(
            [self.program("honed"), "--listen", self.endpoint, "--cache-dir", self.directory],
            stderr=log,
        )
        self.hone("--wait", "20", "status")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def program(self, name):
        return str(pathlib.Path(self.bin) / name) if self.bin else name

    def hone(self, *arguments):
        done = subprocess.run(
            [self.program("hone"), "--endpoint", self.endpoint, *arguments],
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            sys.exit(f"hone {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def tune(self, *arguments):
        """The last event of a tune, and every candidate as it was last told."""
        candidates, finished = {}, None
        for line in self.hone("-o", "json", "tune", *arguments).splitlines():
            event = json.loads(line)
            if "candidate" in event:
                candidates[event["candidate"]["config"]] = event["candidate"]
            finished = event.get("finished", finished)
        return finished, candidates


def triton(workers):
    done = subprocess.run(
        [sys.executable, str(HERE / "triton_matmul_tune.py"), "--workers", str(workers)],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def matmul(bin_dir):
    problem = ("matmul_mma", "m=4096", "n=4096", "k=4096")
    workers = min(16, len(os.sched_getaffinity(0)))
    seconds, tflops, losses = [], [], []
    peers = {1: triton(1), workers: triton(workers)}
    for run in range(3):
        with Daemon(bin_dir) as daemon:
            finished, candidates = daemon.tune(*problem)
            seconds.append(finished["seconds"])
            tflops.append(finished["winner"]["tflop_per_s"])
            if run < 2:
                continue
            timed = [c for c in candidates.values() if "rejection" not in c]
            figure("matmul_candidates", len(timed), "checked and timed")
            again, _ = daemon.tune(*problem)
            figure("matmul_warm_measurements", int(again["measured"]), "measurements")
            _, anew = daemon.tune(*problem, "--force")
            best = min(c["median_ns"] for c in anew.values() if "rejection" not in c)
            losses.append(anew[finished["winner"]["config"]]["median_ns"] / best)
    ours = statistics.median(seconds)
    figure("matmul_tune", ours, "s", "triton, one worker", peers[1]["tune_s"])
    figure("matmul_tune", ours, "s", f"triton, {workers} workers", peers[workers]["tune_s"])
    figure("matmul_speed", statistics.median(tflops), "TFLOP/s", "triton", peers[1]["tflops"])
    figure("matmul_winner_over_best_remeasured", round(statistics.median(losses), 4), "time ratio")


def winners_of(bin_dir, problem):
    winners = collections.Counter()
    for _ in range(RUNS):
        with Daemon(bin_dir) as daemon:
            finished, _ = daemon.tune(*problem)
            winners[finished["winner"]["config"]] += 1
    return winners


def report_winners(bin_dir, name, problem):
    winners = winners_of(bin_dir, problem)
    figure(f"{name}_most_frequent_winner", max(winners.values()), f"of {RUNS} tunes")
    figure(f"{name}_different_winners", len(winners), "winners")
    if len(winners) == 1:
        return
    with Daemon(bin_dir) as daemon:
        configs = [argument for config in winners for argument in ("--config", config)]
        _, candidates = daemon.tune(*problem, *configs)
        ratios = [candidates[c].get("paired_ratio") or float("inf") for c in winners]
    figure(f"{name}_slowest_winner_in_pairs", round(max(ratios) / min(ratios), 4), "time ratio")


def repeat(bin_dir):
    for name, *problem in (
        ("repeat_copy_1d_64mib", "copy_1d", "n=2^24"),
        ("repeat_rmsnorm", "rmsnorm", "T=BF16", "rows=64", "cols=4096"),
        ("repeat_copy_1d_1mib", "copy_1d", "n=2^18"),
    ):
        report_winners(bin_dir, name, problem)


def twins(bin_dir):
    kernels = HERE.parent.parent / "kernels"
    with tempfile.TemporaryDirectory() as directory:
        target = pathlib.Path(directory) / "copy_twins"
        shutil.copytree(kernels / "copy_1d", target)
        text = (target / "template.pbtxt").read_text()
        text = text.replace('name: "copy_1d"', 'name: "copy_twins"', 1)
        text = re.sub(
            r"^tunables ",
            'tunables { name: "UNUSED" values: [7, 3] default: 7 }\ntunables ',
            text,
            count=1,
            flags=re.MULTILINE,
        )
        (target / "template.pbtxt").write_text(text)
        report_winners(bin_dir, "twins", (str(target), "n=2^22"))


LOAD = """
import time, torch
a = torch.randn(4096, 4096, device="cuda")
end = time.time() + 600
while time.time() < end:
    pause = time.time() + 1.0
    while time.time() < pause:
        a @ a
        torch.cuda.synchronize()
    time.sleep(1.0)
"""


def load(bin_dir):
    problem = ("copy_1d", "n=2^24")
    with Daemon(bin_dir) as daemon:
        quiet, _ = daemon.tune(*problem)
    neighbour = subprocess.Popen([sys.executable, "-c", LOAD])
    time.sleep(8)
    same = flagged = 0
    try:
        for _ in range(5):
            with Daemon(bin_dir) as daemon:
                finished, candidates = daemon.tune(*problem)
                equal = finished["winner"]["config"] == quiet["winner"]["config"]
                same += equal
                flagged += not equal and any(c.get("unstable") for c in candidates.values())
    finally:
        neighbour.kill()
    figure("load_same_winner", same, "of 5 tunes")
    figure("load_other_winner_flagged_unstable", flagged, f"of {5 - same} tunes")


def main():
    parts = {"matmul": matmul, "repeat": repeat, "twins": twins, "load": load}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", default="")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts))
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in parts]
    if unknown:
        parser.error(f"there is no part {unknown[0]}; give {', '.join(parts)}")
    with Daemon(options.bin) as daemon:
        print(daemon.hone("status"))
    for part in options.parts or parts:
        parts[part](options.bin)


if __name__ == "__main__":
    main()
