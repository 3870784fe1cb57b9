#!/usr/bin/env python3
"""Checks that includes follow the direction of dependencies and prints every one that does not.

The rooms and what each may include stand in ROOMS below. Foreign headers that belong to a few rooms
only stand in OWNED. Exits 1 if there is a violation.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Room -> rooms of runtime/ it may include, besides itself.
RUNTIME = {
    "base": [],
    "launch": ["base"],
    "kernel": ["generate", "launch", "base"],
    "generate": ["base"],
    "compile": ["kernel", "launch", "base"],
    "device": ["generate", "kernel", "launch", "base"],
    "store": ["kernel", "launch", "base"],
    "cuda": ["compile", "device", "kernel", "launch", "base"],
    "cpu": ["compile", "device", "kernel", "launch", "base"],
    "tune": ["device", "compile", "kernel", "launch", "base"],
    "cache": ["tune", "store", "compile", "device", "kernel", "launch", "base"],
    # A composition root: it chooses implementations.
    "worker": ["cuda", "cpu", "compile", "device", "kernel", "launch", "base"],
}
ROOMS = {f"runtime/{room}": [f"runtime/{r}" for r in allowed] for room, allowed in RUNTIME.items()}
# Proof and fuzzing may look at everything; tests/ is therefore not listed.
ROOMS["server"] = [f"runtime/{room}" for room in RUNTIME if room not in ("cuda", "cpu", "worker")]
ROOMS["client"] = ["runtime/launch", "runtime/base"]

# Single headers beyond that: the wire between daemon and workers has two ends, and the measuring lane
# asks a compiler for its own kernels.
EXTRA = {
    "runtime/compile": ["runtime/worker/convert.h"],
    "runtime/device": ["runtime/worker/convert.h", "runtime/worker/measure_convert.h",
                       "runtime/compile/compiler.h"],
    # hone replay runs without a daemon, and a reference is compiled with what the daemon generates;
    # OWNED keeps each to one file.
    "client": ["runtime/tune/replay.h", "runtime/generate/chain_source.h"],
}

# Header (regular expression over the include's text) -> paths that may have it.
OWNED = {
    r"(cuda|nvrtc|cudaTypedefs)\.h": ["runtime/cuda/", "runtime/launch/", "tests/gpu/"],
    r"sqlite3\.h": ["runtime/store/sqlite"],
    r"nghttp2/.*": ["client/cpp/rpc/"],
    r"nlohmann/.*|zlib\.h": ["runtime/tune/recorded_space", "tests/"],
    r"runtime/tune/replay\.h": ["runtime/tune/replay", "client/cli/cmd_replay", "tests/"],
    r"runtime/generate/.*": ["runtime/", "client/cli/reference_kernel", "tests/"],
    # The implementation of the store: its own files, who chooses it, and tests.
    r"runtime/store/sqlite.*": ["runtime/store/", "server/daemon", "tests/"],
}
# Generated messages stay out of the core, and they and gRPC out of the transport that does without.
FORBIDDEN = {
    r".*\.pb\.h": ["runtime/kernel/", "runtime/tune/", "runtime/cache/", "client/cpp/rpc/"],
    r"grpc(pp)?/.*": ["client/cpp/rpc/"],
}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)


def room_of(path):
    """The longest listed room that `path` lies in; None for others."""
    rooms = [room for room in ROOMS if path.startswith(room + "/")]
    return max(rooms, key=len, default=None)


def violations_of(path, text):
    room = room_of(path)
    for include in INCLUDE.findall(text):
        for pattern, owners in OWNED.items():
            if re.fullmatch(pattern, include) and not path.startswith(tuple(owners)):
                yield f"{path}: <{include}> belongs to {', '.join(owners)}"
        for pattern, closed in FORBIDDEN.items():
            if re.fullmatch(pattern, include) and path.startswith(tuple(closed)):
                yield f"{path}: <{include}> may not be used here"
        if room is None:
            continue
        if include.startswith("tests/"):
            yield f"{path}: product code may not include <{include}>"
        target = room_of(include)
        if include in EXTRA.get(room, []):
            continue
        if target is not None and target != room and target not in ROOMS[room]:
            yield f"{path}: {room} may not include <{include}>"


def main():
    # Untracked files count too: what is checked is what will be committed.
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    sources = [p for p in listed if p.endswith((".h", ".cc", ".c")) and (ROOT / p).exists()]
    found = []
    for path in sources:
        found += violations_of(path, (ROOT / path).read_text(encoding="utf-8"))
    for violation in found:
        print(violation)
    print(f"includes: {len(sources)} files, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
