"""Warming up without blocking an event loop."""

from __future__ import annotations

import asyncio
from typing import Iterable

from .client import Kernel


async def prepare(kernels: Iterable[Kernel], *, concurrency: int = 8) -> None:
    """Fetches and loads the kernels, ``concurrency`` at a time.

    The first failure is raised once those under way have ended; the others are not begun.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency is {concurrency}; it is at least 1")
    loop = asyncio.get_running_loop()
    waiting = list(kernels)

    async def work() -> None:
        while waiting:
            kernel = waiting.pop()
            try:
                await loop.run_in_executor(None, kernel.prepare)
            except BaseException:
                waiting.clear()
                raise

    results = await asyncio.gather(
        *(work() for _ in range(min(concurrency, len(waiting)))), return_exceptions=True
    )
    for result in results:
        if isinstance(result, BaseException):
            raise result
