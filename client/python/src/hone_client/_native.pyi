from typing import Any, Dict, Optional, Union

version: str

class Client:
    daemon_error: Optional[str]
    latest_generation: int
    capture_status: str
    def __init__(
        self,
        endpoint: Optional[str] = None,
        connect_timeout_ms: int = 0,
        enable_cpu_device: bool = False,
        capture_dir: Optional[str] = None,
        pack: Optional[str] = None,
        tls_ca_file: Optional[str] = None,
    ) -> None: ...
    def kernel(
        self,
        template: str,
        params: Dict[str, Union[int, str, bool]],
        digest: Optional[str],
        numerics: int,
        policy: int,
        max_wait_ms: int,
        architecture: Optional[str],
        /,
    ) -> Kernel: ...
    def refresh(self, generation: int, /) -> int: ...

class Kernel:
    """A kernel of one template and problem, in the generation that is in use."""

    @property
    def source(self) -> Optional[str]:
        """"TUNED", "BUCKET", "NEAREST" or "DEFAULT"; None before it is prepared, as all of these."""
    @property
    def key(self) -> Optional[str]: ...
    @property
    def config(self) -> Optional[str]: ...
    @property
    def architecture(self) -> Optional[str]: ...
    @property
    def generation(self) -> Optional[int]: ...
    @property
    def is_stale(self) -> Optional[bool]: ...
    @property
    def from_pack(self) -> Optional[bool]:
        """A pack answered, because the daemon could not be reached."""
    def prepare(self) -> Kernel:
        """Fetches it if it is new and loads it into the CUDA context that is current."""
    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None, **named: Any) -> Any:
        """Enqueues the kernel and returns ``out``.

        ``inputs``: the arrays it reads, in the order of the template. ``out``: the array it writes, or
        a tuple where it writes several. Arrays, scalars, scratch and sizes that are no array's extent
        may also be given by name. ``stream``: a handle, or a stream of torch or CuPy; by default the
        one current in torch, else CUDA's default stream. The first call fetches the kernel, which may
        block; while the stream is captured that is refused: call ``prepare`` before.
        """
