"""Scratch memory for a launch, from the allocator of the caller's arrays."""

from __future__ import annotations

from typing import Any


def allocate(like: Any, name: str, size_bytes: int) -> Any:
    """An uninitialised array of bytes on the device of ``like``.

    The allocators of torch and CuPy hand memory out in the order of a stream, so that it may be let go
    of as soon as the launch is enqueued on the stream current there.
    """
    library = type(like).__module__.partition(".")[0]
    if library == "torch":
        import torch

        return torch.empty(size_bytes, dtype=torch.uint8, device=like.device)
    if library == "cupy":
        import cupy

        with like.device:
            return cupy.empty(size_bytes, dtype=cupy.uint8)
    if library == "numpy":
        import numpy

        return numpy.empty(size_bytes, dtype=numpy.uint8)
    raise TypeError(f"scratch {name!r} needs {size_bytes} bytes; give an array for it by name")
