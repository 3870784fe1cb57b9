#!/usr/bin/env python3
"""Compiles a Triton kernel and writes it as a PREBUILT template: cubins, template.pbtxt, reference.

    python3 tests/gpu/make_triton_cubin.py [--out tests/scenarios/templates] [--capability 90]

Needs Triton 3.6, whose ptxas does the work; a GPU is not needed. What a launch must know is read from
each compiled kernel: its name, its warps and shared memory from the metadata, its parameters from the
PTX. Triton appends pointers to scratch memory of its own to the kernel's parameters; they become
arguments of the template.
"""

import argparse
import itertools
import os
import pathlib
import re

# Read by Triton when it is imported: line tables would name this machine's files.
os.environ["TRITON_DISABLE_LINE_INFO"] = "1"

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

NAME = "triton_add"
BLOCK = 1024
TUNABLES = {"WARPS": [4, 8], "N_MULTIPLE": [1, 16]}
POINTERS = ["x", "y", "out"]


@triton.jit
def triton_add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside)
    tl.store(out + at, total, mask=inside)


def compile_one(config, capability):
    # What Triton may assume: pointers on 16 bytes, and n a multiple of 16 where the config says so.
    # Only then does it use 16-byte accesses under a mask.
    divisible = [["tt.divisibility", 16]]
    attributes = {(i,): divisible for i in range(len(POINTERS))}
    if config["N_MULTIPLE"] == 16:
        attributes[(len(POINTERS),)] = divisible
    signature = {name: "*fp32" for name in POINTERS} | {"n": "i64", "BLOCK": "constexpr"}
    source = ASTSource(
        fn=triton_add, signature=signature, constexprs={"BLOCK": BLOCK}, attrs=attributes)
    return triton.compile(
        source,
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": config["WARPS"]})


def parameter_count(kernel):
    entry = re.search(
        r"\.entry\s+%s\s*\((.*?)\)" % re.escape(kernel.metadata.name), kernel.asm["ptx"], re.S)
    return len(re.findall(r"\.param\b", entry.group(1)))


def by_config(values):
    """An expression for a value that may differ by config."""
    if len(set(values.values())) == 1:
        return str(next(iter(values.values())))
    text = "0"
    for config, value in values.items():
        condition = " && ".join(f"{name} == {number}" for name, number in config)
        text = f"{condition} ? {value} : ({text})"
    return text


def hidden_arguments(kernels):
    """Triton's own trailing parameters: global scratch, then profile scratch."""
    counts = {parameter_count(kernel) for kernel in kernels.values()}
    if counts != {len(POINTERS) + 1 + 2}:
        raise SystemExit(f"expected two parameters of Triton's own after n, found {counts} in all")
    arguments = []
    for name in ("global_scratch", "profile_scratch"):
        sizes = {c: getattr(k.metadata, name + "_size") * k.metadata.num_ctas
                 for c, k in kernels.items()}
        if any(sizes.values()):
            size = by_config(sizes)
            arguments.append(
                f'arguments {{ name: "{name}" scratch {{ bytes: "ceil_div(n, {BLOCK}) * ({size})" }} }}')
        else:
            # Unused: a null pointer.
            arguments.append(f'arguments {{ name: "{name}" scalar {{ type: U64 value: "0" }} }}')
    return arguments


def template_text(kernels, architecture):
    shared = by_config({c: k.metadata.shared for c, k in kernels.items()})
    lines = [
        "# Written by tests/gpu/make_triton_cubin.py with Triton " + triton.__version__ + ".",
        "# proto-file: proto/hone/v1/kernel_template.proto",
        "# proto-message: hone.v1.KernelTemplate",
        f'name: "{NAME}"',
        'version: "1"',
        'description: "out = x + y, compiled by Triton."',
        f'source: "{NAME}.cu"',
        'params { name: "n" size { dynamic: true bucket: POW2 min: 0 } }',
    ]
    descriptions = {
        "WARPS": "Triton's num_warps",
        "N_MULTIPLE": "What the binary relies on n to be a multiple of",
    }
    for name, values in TUNABLES.items():
        lines.append(f'tunables {{ name: "{name}" description: "{descriptions[name]}" '
                     f"values: {values} default: {values[0]} }}")
    lines.append('constraints: "n % N_MULTIPLE == 0"')
    for name in POINTERS:
        access = "WRITE" if name == "out" else "READ init: NORMAL"
        lines.append(f'arguments {{ name: "{name}" buffer {{ dtype: "F32" shape: ["n"] '
                     f'access: {access} alignment_bytes: "16" }} }}')
    lines.append('arguments { name: "n" scalar { type: I64 value: "n" } }')
    lines += hidden_arguments(kernels)
    lines += [
        "steps {",
        f'  entry: "{NAME}"',
        "  launch {",
        f'    grid_x: "ceil_div(n, {BLOCK})"',
        '    block_x: "WARPS * 32"',
        f'    dynamic_shared_bytes: "{shared}"',
        "  }",
        "}",
        'work { bytes: "12 * n" flops: "n" }',
        "check {",
        f'  reference: "{NAME}_reference"',
        '  launch { grid_x: "ceil_div(n, 256)" block_x: "256" }',
        '  output: "out"',
        "  exact: true",
        "}",
        f'requirements {{ min_architecture: "{architecture.rstrip("a")}" }}',
    ]
    for config, kernel in kernels.items():
        values = " ".join(f'config {{ key: "{n}" value: {v} }}' for n, v in config)
        lines.append(f'prebuilt {{ file: "{file_name(config)}" architecture: "{architecture}" '
                     f'{values} symbols: "{kernel.metadata.name}" }}')
    return "\n".join(lines) + "\n"


REFERENCE = """// What triton_add's binaries are held to. The last two parameters are Triton's own.
__global__ void triton_add_reference(const float* x, const float* y, float* out, long long n,
                                     void* global_scratch, void* profile_scratch) {
  (void)global_scratch;
  (void)profile_scratch;
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}
"""


def file_name(config):
    return NAME + "".join(f"_{name.lower()}{value}" for name, value in config) + ".cubin"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="tests/scenarios/templates", type=pathlib.Path)
    parser.add_argument("--capability", default=90, type=int)
    flags = parser.parse_args()
    if not triton.__version__.startswith("3.6."):
        raise SystemExit(f"Triton 3.6 is needed, this is {triton.__version__}: other versions append "
                         "other parameters to kernels")

    kernels = {}
    for values in itertools.product(*TUNABLES.values()):
        config = dict(zip(TUNABLES, values))
        kernels[tuple(config.items())] = compile_one(config, flags.capability)
    targets = {re.search(r"\.target (\w+)", k.asm["ptx"]).group(1) for k in kernels.values()}
    architecture = targets.pop()

    directory = flags.out / NAME
    directory.mkdir(parents=True, exist_ok=True)
    for config, kernel in kernels.items():
        (directory / file_name(config)).write_bytes(kernel.asm["cubin"])
    (directory / "template.pbtxt").write_text(template_text(kernels, architecture))
    (directory / f"{NAME}.cu").write_text(REFERENCE)
    print(f"{directory}: {len(kernels)} binaries for {architecture}")


if __name__ == "__main__":
    main()
