#!/usr/bin/env python3
"""Random problems of every template of kernels/: tuned with a few random candidates, then launched and verified.

    HONE_BIN=DIR python3 tests/kernels/kernel_sweep.py [--device cuda] [--problems N] [TEMPLATE...]

Each problem is tuned at one size, which checks every candidate there and at small sizes, and what is served
is launched at others, with buffers that begin at odd elements, beside the template's reference. Sizes are
those at which kernels go wrong: 1, powers of two and their neighbours, multiples of an access, any others.

A line for each problem that fails, with the commands that repeat it, and exit code 1: a wrong result, an
illegal access, a crash, a source that does not compile, a command that fails. Other rejections are counted.
A template without a generator here is an error. --huge: instead, one problem of each template that has more than
2^31 elements. --sanitizer: measuring workers and launches run under compute-sanitizer.
"""

import argparse
import collections
import json
import math
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("HONE_BIN", str(ROOT / "build/release/bin"))
os.environ.setdefault("HONE_KERNELS", str(ROOT / "kernels"))
sys.path.insert(0, str(ROOT / "tests/client"))

import local_daemon

FAULTS = ("wrong_result", "illegal_access", "crash", "compile")
FLOATS = ("F32", "F16", "BF16")
MOVED = (*FLOATS, "U8")  # what kernels that only move elements take
INDICES = ("I32", "I64")
SPECIALISED_MOST = 1 << 20

# The tuned sizes are those of `params`; `sizes` are the others to launch at.
Problem = collections.namedtuple("Problem", "params sizes", defaults=((),))


class Draw(random.Random):
    """Random parts of problems. ``elements``: about how many the largest array may have."""

    def __init__(self, seed, elements):
        super().__init__(seed)
        self.elements = elements

    def extent(self, most, least=1):
        """Small ones too, however many numbers are large."""
        exponents = range(max(most, 1).bit_length())
        power = 1 << max(self.choice(exponents), self.choice(exponents))
        any_size = power + self.randrange(power)
        size = self.choice((1, power - 1, power, power + 1, any_size, any_size, any_size // 8 * 8, any_size // 4 * 4))
        return max(min(size, most), least)

    def extents(self, count):
        """Of an array, in any order."""
        left, extents = self.elements, []
        for others in reversed(range(count)):
            # Mostly so that something is left for the others.
            share = left if self.random() < 0.3 else int(4 * left ** (1 / (others + 1)))
            extents.append(self.extent(min(left, share)))
            left //= extents[-1]
        self.shuffle(extents)
        return extents

    def flag(self):
        return self.choice(("true", "false"))


def dynamic(draw, fixed, draw_sizes, empty=()):
    """A problem all of whose sizes in ``draw_sizes()`` are dynamic; those in ``empty`` may be 0."""
    sizes = [draw_sizes() for _ in range(3)]
    if empty:
        sizes.insert(1, {**draw_sizes(), draw.choice(empty): 0})
    return Problem({**fixed, **draw_sizes()}, sizes)


def vectors(draw, **fixed):
    return dynamic(draw, fixed, lambda: {"n": draw.extent(draw.elements)}, ("n",))


def matrices(draw, *empty, **fixed):
    def sizes():
        rows, cols = draw.extents(2)
        return {"rows": rows, "cols": cols}

    return dynamic(draw, fixed, sizes, empty)


def rows_of(draw, elements_share=1, **fixed):
    """Matrices whose columns are specialised."""
    elements = draw.elements // elements_share
    cols = draw.extent(min(elements, SPECIALISED_MOST))
    most_rows = max(elements // cols, 1)
    return dynamic(draw, {**fixed, "cols": cols}, lambda: {"rows": draw.extent(most_rows)}, ("rows",))


def copies_2d(draw):
    def sizes():
        rows, cols = draw.extents(2)
        pads = {name: draw.choice((0, 0, 1, 3, 8, 16, 100)) for name in ("dst_pad", "src_pad")}
        return {"rows": rows, "cols": min(cols, draw.elements // rows), **pads}

    return dynamic(draw, {"T": draw.choice(FLOATS)}, sizes, ("rows", "cols"))


def transposes(draw):
    names = ("batch", "rows", "cols")
    return dynamic(draw, {"T": draw.choice(MOVED)}, lambda: dict(zip(names, draw.extents(3))), names)


def permutes(draw):
    names = ("d0", "d1", "d2", "d3")
    order = int("".join(map(str, draw.sample(range(4), 4))))
    fixed = {"T": draw.choice(MOVED), "ORDER": order}
    return dynamic(draw, fixed, lambda: dict(zip(names, draw.extents(4))), names)


def indexed_rows(draw):
    def sizes():
        rows, cols = draw.extents(2)
        return {"rows": rows, "cols": cols, "table_rows": draw.extent(max(draw.elements // cols, 1))}

    fixed = {"T": draw.choice(MOVED), "INDEX": draw.choice(INDICES)}
    return dynamic(draw, fixed, sizes, ("rows", "cols"))


def chain_text(draw, leaves, depth):
    """An expression whose value is finite and depends on its operands."""
    if depth == 0 or draw.random() < 0.15:
        return draw.choice(leaves)
    part = lambda: chain_text(draw, leaves, depth - 1)  # noqa: E731
    form = draw.choice((
        *("({} + {})", "({} - {})", "({} * {})", "({} * {})", "({} / (1 + abs({})))", "relu({})", "silu({})"),
        *("sigmoid({})", "gelu({})", "gelu_tanh({})", "tanh({})", "erf({})", "exp(-abs({}))", "log(1 + abs({}))"),
        *("sqrt(abs({}) + 0.5)", "rsqrt(abs({}) + 0.5)", "-{}", "min({}, {})", "max({}, {})"),
        *("clamp({}, -1, 1.5)", f"where({draw.choice(leaves)} < 0.25, {{}}, {{}})"),
    ))  # fmt: skip
    return form.format(*(part() for _ in range(form.count("{}"))))


def chains(draw):
    if draw.random() < 0.3:
        fixed = {"f": draw.choice(("swiglu", "geglu", "add_bias_gelu", "scale_residual", "swiglu_quantize"))}
        return matrices(draw, "rows", "cols", A=draw.choice(FLOATS), **fixed)
    inputs = "abcd"[: draw.randint(1, 4)]
    text = chain_text(draw, [*inputs, *inputs, "alpha", "beta", "0.5"], draw.randint(1, 3))
    for name in inputs:  # every one of them read
        if name not in text.replace("abs", "").replace("beta", "").replace("alpha", "").replace("tanh", ""):
            text = f"{text} + {name}"
    fixed = {"f": text, "OUT": draw.choice((*FLOATS, "F8E4M3"))}
    for name in inputs:
        fixed[name.upper()] = draw.choice((*FLOATS, "F8E4M3"))
        fixed[f"{name.upper()}_SHAPE"] = draw.choice(("full", "full", "row", "column", "scalar"))
    fixed["A"] = draw.choice((*FLOATS, "F8E4M3"))
    return matrices(draw, "rows", "cols", **fixed)


def softmaxes(draw):
    chain = draw.choice(("x", "x", "scaled", "masked", "scaled_masked", "0.5 * x - relu(mask) * scale"))
    problem = rows_of(draw, T=draw.choice(FLOATS), f=chain)
    if "mask" in chain:
        most = draw.elements // problem.params["cols"]
        problem.params.update(M=draw.choice(FLOATS), mask_rows=draw.choice((0, 1, min(draw.randint(2, 70), most))))
    return problem


def norms(draw):
    types = {"T": draw.choice(FLOATS), "OUT": draw.choice((*FLOATS, "F8E4M3", "F8E4M3"))}
    return rows_of(draw, RESIDUAL=draw.flag(), SCALES=draw.choice(("per_row", "per_block")), **types)


def reductions(draw):
    ops = ("sum", "maximum", "argmax", "mean_variance")
    return {"T": draw.choice(FLOATS), "OP": draw.choice(ops), "UNBIASED": draw.flag()}


def ropes(draw, **more):
    head_dim = draw.choice((64, 80, 96, 128, 128, 256, draw.extent(300, least=2)))
    kv_heads = draw.randint(1, 9)
    fixed = {
        "T": draw.choice(FLOATS),
        "INDEX": draw.choice(INDICES),
        "LAYOUT": draw.choice(("halves", "interleaved")),
        "ROTATION": draw.choice(("table", "computed")),
        "q_heads": kv_heads * draw.choice((1, 1, 2, 4, 7)),
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "rotary_dim": draw.choice((head_dim // 2 * 2, 2 * draw.randint(1, head_dim // 2))),
        **more,
    }
    most = max(draw.elements // ((fixed["q_heads"] + kv_heads) * head_dim), 9)

    def sizes():
        size = {"tokens": draw.extent(most)}
        size["max_positions"] = draw.extent(3000) if fixed["ROTATION"] == "table" else 1
        if "PACKED" in fixed:
            size["cache_slots"] = draw.extent(2 * most)
        return size

    return dynamic(draw, fixed, sizes, ("tokens",))


def matmuls(draw, types):
    step = draw.choice((1, 8))  # whole accesses, which the fast kernels ask for, would be rare
    most = 40 + math.isqrt(draw.elements)
    n, k = (step * draw.extent(most // step) for _ in range(2))
    most_m = max(min(256 * draw.elements // (n * k), draw.elements // max(n, k)), 1)
    return dynamic(draw, {"T": draw.choice(types), "n": n, "k": k}, lambda: {"m": draw.extent(most_m)}, ("m",))


GENERATORS = {
    "axpby_act": lambda draw: vectors(
        draw, T=draw.choice(FLOATS),
        ACT=draw.choice(("identity", "relu", "sigmoid", "silu", "gelu", "gelu_tanh")),
    ),
    "column_reduce": lambda draw: matrices(draw, "rows", **reductions(draw)),
    "copy_1d": lambda draw: vectors(draw, T=draw.choice(MOVED)),
    "copy_2d": copies_2d,
    "cross_entropy": lambda draw: rows_of(draw, T=draw.choice(FLOATS), INDEX=draw.choice(INDICES)),
    "dequantize_fp8": lambda draw: rows_of(
        draw, T=draw.choice(FLOATS), SCALE=draw.choice(("tensor", "row", "block"))
    ),
    "elementwise": chains,
    "gather_rows": indexed_rows,
    "layernorm": norms,
    "log_softmax": softmaxes,
    "matmul_mma": lambda draw: matmuls(draw, ("BF16", "F16")),
    "matmul_tiled": lambda draw: matmuls(draw, FLOATS),
    "permute": permutes,
    "quantize_fp8": lambda draw: rows_of(
        draw, T=draw.choice(FLOATS), SCALE=draw.choice(("tensor", "row", "block"))
    ),
    "reduce_all": lambda draw: vectors(draw, **reductions(draw)),
    "rmsnorm": norms,
    "rope": ropes,
    "rope_norm_append": lambda draw: ropes(draw, NORM=draw.flag(), PACKED=draw.flag()),
    "row_reduce": lambda draw: rows_of(draw, **reductions(draw)),
    "scatter_rows": indexed_rows,
    "softmax": softmaxes,
    "transpose": transposes,
}  # fmt: skip
ON_CUDA_ONLY = ("matmul_mma",)

# Of more than 2^31 elements, with what a check needs besides in at most 20 GB. Checked by the tune alone.
HUGE = {
    "axpby_act": {"T": "F16", "ACT": "relu", "n": 2**31 + 9},
    "column_reduce": {"T": "F16", "OP": "argmax", "rows": 2**26 + 1, "cols": 33},
    "copy_1d": {"T": "U8", "n": 2**32 + 17},
    "copy_2d": {"T": "F16", "rows": 2**16 + 1, "cols": 2**15 + 1, "src_pad": 7},
    "cross_entropy": {"T": "F16", "rows": 2**21 + 1, "cols": 1030},
    "dequantize_fp8": {"T": "F16", "SCALE": "block", "rows": 2**20 + 1, "cols": 2056},
    "elementwise": {"f": "a * b", "A": "F16", "B_SHAPE": "row", "rows": 2**16 + 1, "cols": 2**15 + 1},
    "gather_rows": {"T": "U8", "rows": 2**21 + 1, "cols": 1030, "table_rows": 2**21 + 3},
    "layernorm": {"T": "F16", "rows": 2**21 + 1, "cols": 1030},
    "log_softmax": {"T": "F16", "rows": 2**14 + 1, "cols": 2**17 + 3},
    "matmul_mma": {"T": "F16", "m": 2**17 + 1, "n": 2**14 + 8, "k": 8},
    "matmul_tiled": {"T": "F16", "m": 2**17 + 1, "n": 2**14 + 8, "k": 8},
    "permute": {"T": "U8", "ORDER": 231, "d0": 3, "d1": 1030, "d2": 1000, "d3": 700},
    "quantize_fp8": {"T": "F16", "SCALE": "row", "rows": 2**21 + 1, "cols": 1032},
    "reduce_all": {"T": "F16", "OP": "argmax", "n": 2**31 + 5},
    "rmsnorm": {"T": "F16", "rows": 2**21 + 1, "cols": 1030},
    "rope": {"T": "BF16", "tokens": 2**19 + 1, "q_heads": 33, "kv_heads": 1, "head_dim": 128, "rotary_dim": 128},
    "rope_norm_append": {"T": "BF16", "tokens": 2**19 + 1, "q_heads": 33, "kv_heads": 1, "cache_slots": 1000},
    "row_reduce": {"T": "F16", "OP": "argmax", "rows": 2**21 + 1, "cols": 1030},
    "scatter_rows": {"T": "U8", "rows": 2**21 + 1, "cols": 1030, "table_rows": 2**21 + 1},
    "softmax": {"T": "F16", "rows": 2**21 + 1, "cols": 1030},
    "transpose": {"T": "U8", "batch": 3, "rows": 2**15 + 1, "cols": 2**15 + 1},
}  # fmt: skip


def assigned(params):
    return [f"{name}={value}" for name, value in params.items()]


class Sweep:
    def __init__(self, daemon, options, run_prefix):
        self.daemon = daemon
        self.options = options
        self.run_prefix = run_prefix
        self.rejected = collections.Counter()
        self.right = self.launches = self.problems = self.failed = 0
        self.hone_program = str(local_daemon.BIN / "hone")
        listed = json.loads(daemon.hone("-o", "json", "templates"))
        self.templates = [one["name"] for one in listed["templates"]]

    def is_checked_by_chain(self, template):
        """hone run does not verify such a template's results: a tune of the size does."""
        described = json.loads(self.daemon.hone("-o", "json", "describe", template))
        return any("chain" in check for check in described["template"]["check"])

    def hone(self, arguments, prefix=()):
        command = [*prefix, self.hone_program, "--endpoint", self.daemon.endpoint, "-o", "json", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        return done.returncode, done.stdout, " / ".join(said[:3])

    def tune(self, arguments, faults):
        """The events' started and finished, where there are any."""
        code, printed, said = self.hone(["tune", *arguments])
        seen = {}
        rejections = {}
        for line in printed.splitlines():
            for kind, event in json.loads(line).items():
                seen[kind] = event
                if kind == "candidate":  # said again when later rounds move its median
                    rejections[event["config"]] = event.get("rejection")
        self.right += sum(not rejection for rejection in rejections.values())
        found = False
        for config, rejection in rejections.items():
            if not rejection:
                continue
            self.rejected[rejection["kind"]] += 1
            if rejection["kind"] in FAULTS:
                found = True
                one = [word for word in arguments if "=" in word and not word.startswith("--")]
                repeat = shlex.join(["hone", "tune", arguments[0], *one, "--config", config])
                faults.append(f"{rejection['kind']}, {' '.join(rejection['detail'].split())}: {repeat}")
        if code != 0 and not found:
            faults.append(f"{said}: {shlex.join(['hone', 'tune', *arguments])}")
        return seen

    def check(self, template, problem, seed, chain):
        """What is wrong with it; nothing if all is right."""
        faults = []
        budget = ["--strategy", "random", "--seed", str(seed), "--evaluations", str(self.options.evaluations)]
        tune = [template, *assigned(problem.params), *budget]
        seen = self.tune(tune, faults)
        draw = random.Random(seed)
        for sizes in problem.sizes:
            params = assigned({**problem.params, **sizes})
            verify = ["--verify"]
            if chain:
                verify = []
                # Constraints may keep the winner out here, the default never.
                configs = dict.fromkeys((
                    seen.get("started", {}).get("default_config"),
                    seen.get("finished", {}).get("winner", {}).get("config"),
                ))  # fmt: skip
                chosen = [f"--config={config}" for config in configs if config]
                self.tune([template, *params, *chosen], faults)
            offset = draw.choice((0, 1, 3, 4, 5, 7))
            run = ["run", template, *params, *verify, "--offset-elements", str(offset)]
            code, _, said = self.hone(run, self.run_prefix)
            self.launches += 1
            if code != 0:
                faults.append(f"{said}: {shlex.join(['hone', 'tune', *tune])} && {shlex.join(['hone', *run])}")
        return faults

    def run(self, template, problem, seed, chain):
        began = time.monotonic()
        faults = self.check(template, problem, seed, chain)
        self.problems += 1
        self.failed += bool(faults)
        if self.options.verbose:
            print(f"{time.monotonic() - began:6.1f} s  {template} {' '.join(assigned(problem.params))}", flush=True)
        for fault in faults:
            print(f"{template}: {fault}", flush=True)


def sanitized_programs(directory, tool):
    """The programs again, measuring workers under compute-sanitizer: honed finds its worker beside itself."""
    if shutil.which("compute-sanitizer") is None:
        sys.exit("compute-sanitizer is not on the PATH")
    programs = pathlib.Path(directory) / "bin"
    programs.mkdir()
    real = local_daemon.BIN
    shutil.copy2(real / "honed", programs / "honed")
    (programs / "hone").symlink_to(real.resolve() / "hone")
    if (real / "../lib").is_dir():
        (programs.parent / "lib").symlink_to((real / "../lib").resolve())
    worker = shlex.quote(str(real.resolve() / "hone-worker"))
    log = shlex.quote(f"{directory}/sanitizer.%p.log")
    wrapper = programs / "hone-worker"
    wrapper.write_text(
        f'#!/bin/sh\n[ "$1" = measure ] || exec {worker} "$@"\n'
        f'exec compute-sanitizer --tool {shlex.quote(tool)} --log-file {log} {worker} "$@"\n'
    )
    wrapper.chmod(0o755)
    return programs


SANITIZER_ERROR = r"ERROR SUMMARY: [1-9]|^========= (Invalid|Misaligned|Uninitialized|Barrier error|Error: )"


def sanitizer_findings(directory):
    """A worker that was ended has no summary."""
    logs = sorted(pathlib.Path(directory).glob("sanitizer.*.log"))
    if not logs:
        return ["sanitizer: no worker ran under it"]
    lines = []
    for log in logs:
        text = log.read_text(errors="replace")
        if re.search(SANITIZER_ERROR, text, re.MULTILINE):
            lines += [f"sanitizer: {line}" for line in text.splitlines()[:40]]
    return lines


def parsed_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("templates", nargs="*", metavar="TEMPLATE", help="all if none is named")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--problems", type=int, default=5, help="of each template")
    parser.add_argument("--evaluations", type=int, default=4, help="candidates measured of each problem")
    parser.add_argument("--sizes", type=int, default=4, help="to launch at, of each problem")
    parser.add_argument("--elements", type=int, default=0, help="at most about so many; default 2^13, 2^22 on a GPU")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="print the problems and tune nothing")
    parser.add_argument("--huge", action="store_true", help="problems of more than 2^31 elements instead; cuda only")
    parser.add_argument("--sanitizer", metavar="TOOL", help="memcheck, racecheck, ...; cuda only")
    parser.add_argument("--verbose", action="store_true", help="every problem, with the time it took")
    options = parser.parse_args()
    if options.device != "cuda" and (options.huge or options.sanitizer):
        parser.error("--huge and --sanitizer need --device cuda")
    return options


def problems_of(template, options):
    if options.huge:
        if template in HUGE:
            yield options.seed, Problem(HUGE[template])
        return
    elements = options.elements or (1 << 22 if options.device == "cuda" else 1 << 13)
    for number in range(options.problems):
        # Of its own, so that one problem may be tried again without those before it.
        problem = GENERATORS[template](Draw(f"{template} {options.seed} {number}", elements))
        yield options.seed + number, problem._replace(sizes=problem.sizes[: options.sizes])


def main():
    options = parsed_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and with it the daemon
    there = sorted(path.parent.name for path in pathlib.Path(os.environ["HONE_KERNELS"]).glob("*/template.pbtxt"))
    forgotten = [name for name in there if name not in GENERATORS]
    if forgotten:
        sys.exit(f"no generator of problems here for {', '.join(forgotten)}")
    unknown = [name for name in options.templates if name not in there]
    if unknown:
        sys.exit(f"no template {unknown[0]!r}; there are {', '.join(there)}")
    chosen = [name for name in options.templates or there if options.device == "cuda" or name not in ON_CUDA_ONLY]
    if options.list:
        for name in chosen:
            for _, problem in problems_of(name, options):
                print(name, shlex.join(assigned(problem.params)))
                for sizes in problem.sizes:
                    print("    ", *assigned(sizes))
        return 0
    findings = []
    with tempfile.TemporaryDirectory() as directory:
        prefix = ()
        if options.sanitizer:
            local_daemon.BIN = sanitized_programs(directory, options.sanitizer)
            prefix = ("compute-sanitizer", "--tool", options.sanitizer, "--error-exitcode", "99")
        patience = ["--launch-timeout", "5m"] if options.huge or options.sanitizer else []
        daemon = local_daemon.LocalDaemon(directory, "--device", options.device, *patience)
        try:
            sweep = Sweep(daemon, options, prefix)
            for name in chosen:
                chain = sweep.is_checked_by_chain(name)
                for seed, problem in problems_of(name, options):
                    sweep.run(name, problem, seed, chain)
        finally:
            daemon.process.terminate()  # which lets measuring workers end
            daemon.process.wait()
        findings = sanitizer_findings(directory) if options.sanitizer else []
    print(*findings, sep="\n", end="\n" if findings else "")
    rejected = ", ".join(f"{count} {kind}" for kind, count in sorted(sweep.rejected.items())) or "none"
    print(f"{sweep.problems} problems, {sweep.failed} failed; {sweep.right} candidates right, rejected: {rejected}; "
          f"{sweep.launches} launches")  # fmt: skip
    return 1 if sweep.failed or findings else 0


if __name__ == "__main__":
    sys.exit(main())
