"""Ten lines from a daemon to a launched kernel.

    honed &                             # once
    python copy_tensor.py                      # needs PyTorch and a GPU
"""

import torch

import hone_client

client = hone_client.connect()
kernel = client.kernel("copy_1d", T="f32", n=1 << 20)
x = torch.randn(1 << 20, device="cuda")
y = kernel(x, out=torch.empty_like(x))
assert torch.equal(x, y)
print(kernel.source, kernel.config)
