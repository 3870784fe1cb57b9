"""Tuned GPU kernels from a hone daemon.

    import hone_client, torch
    client = hone_client.connect()
    kernel = client.kernel("rmsnorm", T="bf16", rows=4096, cols=8192)
    y = kernel(x, w, out=torch.empty_like(x), eps=1e-6)
"""

from .client import Client, Kernel, Numerics, Policy, connect
from .errors import HoneError
from ._native import version as __version__

__all__ = ["Client", "HoneError", "Kernel", "Numerics", "Policy", "connect", "__version__"]
