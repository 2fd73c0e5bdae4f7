"""Millrace: training data from tar shards.

    import millrace
    for key, fields in millrace.samples("http://127.0.0.1:9400/train/train-000000.tar"):
        fields["jpg"], fields["cls"]

`millrace.webdataset` and `millrace.dlinputs` run programs written for those libraries.
"""
from __future__ import annotations

from ._core import FileIterator, SampleIterator, expand_names
from ._core import version as __version__
from .dataset import Dataset
from .epoch import Epoch
from .errors import (CancelledError, CorruptError, DeniedError, Error, ExistsError, InUseError, InvalidError,
                     InvalidTypeError, IoError, MissingFieldError, NoSpaceError, NotFoundError, SecurityError, TooLargeError,
                     TruncatedError, UnavailableError, UnsupportedError)
from .transforms import transform
from .writers import ShardFile, ShardWriter

samples = SampleIterator
files = FileIterator

__all__ = [
    "Dataset", "Epoch", "transform", "samples", "files", "SampleIterator", "FileIterator", "ShardFile", "ShardWriter", "expand_names", "Error",
    "InvalidError", "InvalidTypeError", "InUseError", "MissingFieldError", "NotFoundError", "ExistsError", "CorruptError",
    "TruncatedError", "UnsupportedError", "TooLargeError", "NoSpaceError", "DeniedError", "SecurityError", "IoError", "UnavailableError", "CancelledError", "__version__",
]
