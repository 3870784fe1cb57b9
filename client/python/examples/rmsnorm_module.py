"""A small PyTorch module whose RMSNorm is a kernel of hone, eager and compiled.

    python rmsnorm_module.py            # needs a daemon, PyTorch and a GPU
"""

import torch

import hone_client
from hone_client import torch_op


class RMSNorm(torch.nn.Module):
    def __init__(self, width, rmsnorm, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width, dtype=torch.bfloat16, device="cuda"))
        self.rmsnorm = rmsnorm
        self.eps = eps

    def forward(self, x):
        y = torch.empty_like(x)
        self.rmsnorm(x, self.weight.detach(), y, self.eps)
        return y


class Block(torch.nn.Module):
    def __init__(self, width, norm):
        super().__init__()
        self.norm = norm
        self.linear = torch.nn.Linear(width, width, dtype=torch.bfloat16, device="cuda")

    def forward(self, x):
        return x + self.linear(self.norm(x))


def main():
    client = hone_client.connect()
    width = 4096
    rmsnorm = torch_op.rmsnorm(client)
    ours = Block(width, RMSNorm(width, rmsnorm))
    theirs = Block(width, torch.nn.RMSNorm(width, eps=1e-6, dtype=torch.bfloat16, device="cuda"))
    theirs.linear = ours.linear
    x = torch.randn(64, width, dtype=torch.bfloat16, device="cuda")
    with torch.no_grad():
        expected = theirs(x)
        torch.testing.assert_close(ours(x), expected, atol=2e-2, rtol=2e-2)
        compiled = torch.compile(ours, fullgraph=True)
        torch.testing.assert_close(compiled(x), expected, atol=2e-2, rtol=2e-2)
    print("equal to torch.nn.RMSNorm, eager and compiled")


if __name__ == "__main__":
    main()
