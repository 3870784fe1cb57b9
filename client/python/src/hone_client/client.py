"""Clients of the daemon."""

from __future__ import annotations

import enum
import os
from typing import Any, Iterable, Optional, Union

from . import _native

Kernel = _native.Kernel
Param = Union[int, str, bool, Any]
Path = Union[str, "os.PathLike[str]"]


class Policy(enum.IntEnum):
    """How a kernel is answered for which nothing is tuned; see GetKernel in the daemon's API."""

    BEST_AVAILABLE = 0
    WAIT_TUNED = 1
    NO_WAIT = 2
    FROZEN = 3


class Numerics(enum.IntEnum):
    """Which configs may win."""

    WITHIN_TOLERANCE = 0
    SAME_BITS_AS_DEFAULT = 1


_DTYPES = {
    "float16": "F16",
    "half": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float": "F32",
    "float64": "F64",
    "double": "F64",
    "float8_e4m3fn": "F8E4M3",
    "float8_e5m2": "F8E5M2",
    "int8": "I8",
    "uint8": "U8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
    "bool": "BOOL",
}
_HONE_DTYPES = set(_DTYPES.values())


def _param(value: Param) -> Param:
    """A dtype of torch, numpy or by one of its usual names as hone names it; else as it is."""
    if isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        upper = value.upper()
        return upper if upper in _HONE_DTYPES else _DTYPES.get(value, value)
    name = getattr(value, "__name__", None) or str(value)
    return _DTYPES.get(name.rpartition(".")[2], value)


def _milliseconds(seconds: Optional[float], what: str) -> int:
    """0 stands for the library's default."""
    if seconds is None:
        return 0
    if not 0.001 <= seconds <= 2_000_000:
        raise ValueError(f"{what} is {seconds} s; it is at least 0.001 s")
    return round(seconds * 1000)


class Client:
    """A connection to the daemon. Thread-safe; kernels keep it alive.

    Nothing is connected before the first kernel is prepared, so that a server may start before its
    daemon, and what is prepared goes on working without one.
    """

    def __init__(
        self,
        endpoint: Optional[str] = None,
        *,
        connect_timeout: Optional[float] = None,
        enable_cpu_device: bool = False,
        capture_dir: Optional[Path] = None,
        pack: Optional[Path] = None,
        tls_ca_file: Optional[Path] = None,
    ) -> None:
        self._native = _native.Client(
            endpoint,
            _milliseconds(connect_timeout, "connect_timeout"),
            enable_cpu_device,
            None if capture_dir is None else os.fspath(capture_dir),
            None if pack is None else os.fspath(pack),
            None if tls_ca_file is None else os.fspath(tls_ca_file),
        )

    def kernel(
        self,
        template: str,
        *,
        digest: Optional[str] = None,
        numerics: Numerics = Numerics.WITHIN_TOLERANCE,
        policy: Policy = Policy.BEST_AVAILABLE,
        max_wait: Optional[float] = None,
        architecture: Optional[str] = None,
        **params: Param,
    ) -> Kernel:
        """The kernel of a template for a problem; ``params`` are the template's.

        It is fetched and loaded by ``prepare`` or by the first call. ``max_wait``: seconds that the
        daemon may take for it. ``architecture``: "cpu", or empty for the device that is current in
        CUDA now, and where none is, the daemon's first.
        """
        values = {name: _param(value) for name, value in params.items()}
        return self._native.kernel(
            template,
            values,
            digest,
            int(numerics),
            int(policy),
            _milliseconds(max_wait, "max_wait"),
            architecture,
        )

    def prepare(self, kernels: Iterable[Kernel]) -> None:
        """Fetches and loads them, so that no later call has to wait."""
        for kernel in kernels:
            kernel.prepare()

    @property
    def daemon_error(self) -> Optional[str]:
        """Why the daemon cannot be reached; None when it answers. Takes 0.2 s at most."""
        return self._native.daemon_error

    @property
    def latest_generation(self) -> int:
        """The newest generation of kernels that is loaded, but not necessarily in use."""
        return self._native.latest_generation

    @property
    def capture_status(self) -> str:
        """What becomes of recorded launches, for people; empty when nothing is to be recorded."""
        return self._native.capture_status

    def refresh(self, generation: Optional[int] = None) -> int:
        """Uses the newest kernels up to ``generation`` (``latest_generation``) from now on.

        Ranks that agree on a generation first switch together. Returns how many kernels changed. Not
        to be called while a CUDA graph is captured.
        """
        return self._native.refresh(self.latest_generation if generation is None else generation)


def connect(
    endpoint: Optional[str] = None,
    *,
    connect_timeout: Optional[float] = None,
    enable_cpu_device: bool = False,
    capture_dir: Optional[Path] = None,
    pack: Optional[Path] = None,
    tls_ca_file: Optional[Path] = None,
) -> Client:
    """A client of the daemon at ``endpoint`` ("unix:PATH" or "HOST:PORT").

    Without one: ``$HONE_ENDPOINT``, else the first of the daemon's usual sockets that exists.
    ``connect_timeout``: seconds that a call waits for a daemon that cannot be reached (5).
    ``enable_cpu_device``: lets kernels of the CPU reference device, which are code that the daemon
    sent, run in this process. ``capture_dir``: where launches are recorded as problems for
    ``hone tune --from``; without it ``$HONE_CAPTURE``, and nowhere if that is not set. ``pack``: a
    kernel pack (``hone pack export``) that answers while the daemon cannot be reached;
    ``kernel.from_pack`` says so. Without one ``$HONE_PACK``; "" for none. ``tls_ca_file``: speaks TLS
    to "HOST:PORT", with a daemon whose certificate is for HOST and was issued by an authority in this
    PEM file; "system": by one that the system trusts. Without one: ``$HONE_TLS_CA_FILE``, else plain
    text. Needs OpenSSL 3 (``libssl.so.3``) on the host.
    """
    return Client(
        endpoint,
        connect_timeout=connect_timeout,
        enable_cpu_device=enable_cpu_device,
        capture_dir=capture_dir,
        pack=pack,
        tls_ca_file=tls_ca_file,
    )
