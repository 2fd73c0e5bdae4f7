"""Handlers decide about an exception: raise it, go on (True) or stop (False). Stages take one as `handler=`."""
from __future__ import annotations

import warnings


def reraise_exception(exn: BaseException) -> bool:
    raise exn


def ignore_and_continue(exn: BaseException) -> bool:
    return True


def warn_and_continue(exn: BaseException) -> bool:
    warnings.warn(repr(exn), stacklevel=2)
    return True


def ignore_and_stop(exn: BaseException) -> bool:
    return False


def warn_and_stop(exn: BaseException) -> bool:
    warnings.warn(repr(exn), stacklevel=2)
    return False
