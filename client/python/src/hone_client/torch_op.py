"""Kernels as custom operators of PyTorch, so that torch.compile keeps them in its graphs."""

from __future__ import annotations

from typing import Any, Callable, Dict, Sequence, Tuple

import torch


def custom_op(
    name: str,
    kernel_for: Callable[..., Any],
    schema: str,
    mutates: Sequence[str],
) -> Callable[..., Any]:
    """Registers ``name`` ("mine::rmsnorm") as an operator that launches a kernel of hone.

    ``schema``: its signature as PyTorch writes it, "(Tensor x, Tensor w, Tensor(a!) y, float eps) ->
    ()"; outputs are arguments marked as mutated, named in ``mutates`` too. ``kernel_for`` gets the
    operator's arguments and launches; it returns nothing. It is not traced.
    """
    operator = torch.library.custom_op(
        name, kernel_for, mutates_args=tuple(mutates), schema=schema
    )
    # Outputs are given, so that there is nothing to infer.
    operator.register_fake(lambda *args, **kwargs: None)
    return operator


def rmsnorm(client: Any, namespace: str = "hone") -> Callable[..., None]:
    """Registers ``namespace::rmsnorm(x, weight, y, eps)`` over the last dimension of ``x``.

    One kernel is fetched for each type and row length met; numbers of rows share it.
    """
    kernels: Dict[Tuple[torch.dtype, int], Any] = {}

    def launch(x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor, eps: float) -> None:
        cols = x.shape[-1]
        kernel = kernels.get((x.dtype, cols))
        if kernel is None:
            rows = x.numel() // max(1, cols)
            kernel = client.kernel("rmsnorm", T=x.dtype, rows=rows, cols=cols)
            kernels[x.dtype, cols] = kernel
        kernel(x.view(-1, cols), weight, out=y.view(-1, cols), eps=eps)

    return custom_op(
        f"{namespace}::rmsnorm",
        launch,
        "(Tensor x, Tensor weight, Tensor(a!) y, float eps) -> ()",
        ["y"],
    )
