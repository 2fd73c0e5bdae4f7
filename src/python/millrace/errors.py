"""Exceptions: Error and one subclass per kind, each also one of Python's own exceptions where one fits.

Every Error says where: `shard` (the address), `member` (the file in it), `offset` (the byte in the tar), in the
loader also `stage` (fetch, untar, decode, python), and may carry a `hint` on what to do next. What is not known is None.
"""
from __future__ import annotations

import tarfile
from typing import Any, Optional


class Error(Exception):
    code = "error"

    def __init__(self, message: str = "", *, hint: str = "", shard: Optional[str] = None,
                 member: Optional[str] = None, offset: Optional[int] = None, stage: Optional[str] = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.shard = shard
        self.member = member
        self.offset = offset
        self.stage = stage

    def __str__(self) -> str:
        # args may have been extended by a caller, as WebDataset's users do.
        text = ": ".join(str(part) for part in self.args)
        return f"{text} ({self.hint})" if self.hint else text

    def __reduce__(self):
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind, args, facts):
    error = kind(*args[:1])
    error.args = args
    error.__dict__.update(facts)
    return error


class InvalidError(Error, ValueError):
    code = "invalid"


class InvalidTypeError(InvalidError, TypeError):
    """A value of a kind that makes no sense here, or a question that this kind of data set has no answer to."""


class InUseError(InvalidError):
    """A second thread, or a call from within the call under way. What is under way goes on."""

    def __init__(self, message: str = "already in use, by another thread or by the call under way", *,
                 hint: str = "one iterator, reader or writer is for one thread at a time", **facts: Any) -> None:
        super().__init__(message, hint=hint, **facts)


class MissingFieldError(InvalidError, KeyError):
    """A sample lacks a field that was asked for; the message lists those that it has."""


class NotFoundError(Error, FileNotFoundError):
    code = "not_found"


class ExistsError(Error, FileExistsError):
    code = "exists"


class CorruptError(Error, ValueError):
    code = "corrupt"


class TruncatedError(CorruptError, EOFError, tarfile.ReadError):
    code = "truncated"


class UnsupportedError(Error, NotImplementedError):
    code = "unsupported"


class TooLargeError(Error, ValueError):
    code = "too_large"


class NoSpaceError(Error, OSError):
    code = "no_space"


class DeniedError(Error, PermissionError):
    code = "denied"


class SecurityError(DeniedError, ValueError):
    """Forbidden by WDS_SECURE, whatever else permits it."""


class IoError(Error, OSError):
    code = "io"


class UnavailableError(Error, ConnectionError):
    code = "unavailable"


class CancelledError(Error):
    code = "cancelled"


_KINDS = {kind.code: kind for kind in (
    InvalidError, NotFoundError, ExistsError, CorruptError, TruncatedError, UnsupportedError, TooLargeError,
    NoSpaceError, DeniedError, IoError, UnavailableError, CancelledError)}


def make_error(code: str, message: str, hint: str = "", shard: Optional[str] = None, member: Optional[str] = None,
               offset: Optional[int] = None, stage: Optional[str] = None) -> Error:
    return _KINDS.get(code, Error)(message, hint=hint, shard=shard, member=member, offset=offset, stage=stage)
