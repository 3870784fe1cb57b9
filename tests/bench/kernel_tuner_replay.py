#!/usr/bin/env python3
"""Kernel Tuner's search strategies on a recorded space, in its simulation mode, as hone replay runs hone's.

    python3 tests/bench/kernel_tuner_replay.py FILE [--strategies a,b,...] [--seeds 100]

FILE holds T4 results, plain or compressed by gzip. Needs kernel_tuner (1.5). Every strategy may spend 400
evaluations; a rejected configuration costs one like any other. Prints one JSON object a strategy: the mean
over the seeds of best possible time / best found after so many evaluations.
"""

import argparse
import contextlib
import gzip
import io
import json
import pathlib
import random
import tempfile
import warnings

import numpy as np

EVALUATIONS = [10, 25, 50, 100, 200, 400]
STRATEGIES = [
    "adaptive_tabu_greywolf", "hybrid_vndx", "simulated_annealing", "firefly_algorithm",
    "dual_annealing", "pso", "genetic_algorithm", "mls", "random_sample",
]


def load(path):
    open_file = gzip.open if path.endswith(".gz") else open
    with open_file(path, "rt") as file:
        results = json.load(file)["results"]
    names = list(results[0]["configuration"])
    rows = {}
    for result in results:
        key = tuple(result["configuration"][name] for name in names)
        right = result["invalidity"] == "correct"
        rows[key] = float(np.mean(result["times"]["runtimes"])) if right else None
    return names, rows


def write_cache(path, names, values, rows):
    """Kernel Tuner's own record of a finished tune, which its simulation mode answers from."""
    entries = {}
    for key, time in rows.items():
        entry = dict(zip(names, key))
        entry["time"] = "RuntimeFailedConfig" if time is None else time
        if time is not None:
            entry["times"] = [time]
        entry.update(compile_time=0, verification_time=0, benchmark_time=0, GFLOP_s=0)
        entries[",".join(str(value) for value in key)] = entry
    record = dict(
        device_name="recorded", kernel_name="k", problem_size=[1], tune_params_keys=names,
        tune_params=values, objective="time", cache=entries,
    )
    pathlib.Path(path).write_text(json.dumps(record))


def run(strategy, names, values, rows, cache, seed):
    """Times in the order in which the strategy asked for them; infinity for a rejection."""
    from constraint import FunctionConstraint
    from kernel_tuner import tune_kernel, util

    asked = []

    def take_down(tune_params, params, *_, **__):
        time = params.get("time")
        asked.append(time if isinstance(time, (int, float)) and time < 1e20 else float("inf"))

    util.print_config_output = take_down
    random.seed(seed)
    np.random.seed(seed)
    with contextlib.redirect_stdout(io.StringIO()):
        tune_kernel(
            "k", "__global__ void k() {}", (1,), [], values,
            restrictions=[FunctionConstraint(lambda *key: key in rows)],
            cache=str(cache), simulation_mode=True, strategy=strategy,
            strategy_options=dict(max_fevals=EVALUATIONS[-1]), lang="CUDA", quiet=True, seed=seed,
        )
    return asked


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file")
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--seeds", type=int, default=100)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    names, rows = load(options.file)
    values = {n: sorted({key[i] for key in rows}) for i, n in enumerate(names)}
    best = min(time for time in rows.values() if time is not None)
    with tempfile.TemporaryDirectory() as directory:
        cache = pathlib.Path(directory) / "cache.json"
        for strategy in options.strategies.split(","):
            fractions = []
            for seed in range(options.seeds):
                write_cache(cache, names, values, rows)
                found = np.minimum.accumulate(run(strategy, names, values, rows, cache, seed))
                fractions.append([best / found[min(n, len(found)) - 1] for n in EVALUATIONS])
            means = np.mean(fractions, axis=0)
            line = {"strategy": strategy, "seeds": options.seeds}
            line |= {str(n): round(float(mean), 4) for n, mean in zip(EVALUATIONS, means)}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
