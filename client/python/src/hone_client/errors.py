"""Errors of hone, by the code that the daemon or the library gave."""

from __future__ import annotations


class HoneError(Exception):
    """What went wrong, naming the field, the value and what would be right.

    ``code`` is gRPC's name of it, for instance ``"NOT_FOUND"``.
    """

    code = "UNKNOWN"


class CancelledError(HoneError):
    code = "CANCELLED"


class InvalidArgumentError(HoneError, ValueError):
    code = "INVALID_ARGUMENT"


class DeadlineExceededError(HoneError, TimeoutError):
    code = "DEADLINE_EXCEEDED"


class NotFoundError(HoneError, LookupError):
    code = "NOT_FOUND"


class AlreadyExistsError(HoneError):
    code = "ALREADY_EXISTS"


class PermissionDeniedError(HoneError, PermissionError):
    code = "PERMISSION_DENIED"


class ResourceExhaustedError(HoneError):
    code = "RESOURCE_EXHAUSTED"


class FailedPreconditionError(HoneError, RuntimeError):
    code = "FAILED_PRECONDITION"


class AbortedError(HoneError, RuntimeError):
    code = "ABORTED"


class OutOfRangeError(HoneError, ValueError):
    code = "OUT_OF_RANGE"


class UnimplementedError(HoneError, NotImplementedError):
    code = "UNIMPLEMENTED"


class InternalError(HoneError, RuntimeError):
    code = "INTERNAL"


class UnavailableError(HoneError, ConnectionError):
    code = "UNAVAILABLE"


class DataLossError(HoneError, RuntimeError):
    code = "DATA_LOSS"


class UnauthenticatedError(HoneError):
    code = "UNAUTHENTICATED"


_BY_NUMBER = {
    1: CancelledError,
    3: InvalidArgumentError,
    4: DeadlineExceededError,
    5: NotFoundError,
    6: AlreadyExistsError,
    7: PermissionDeniedError,
    8: ResourceExhaustedError,
    9: FailedPreconditionError,
    10: AbortedError,
    11: OutOfRangeError,
    12: UnimplementedError,
    13: InternalError,
    14: UnavailableError,
    15: DataLossError,
    16: UnauthenticatedError,
}


def from_code(code: int, message: str) -> HoneError:
    """The exception of a code as gRPC numbers them."""
    return _BY_NUMBER.get(code, HoneError)(message)
