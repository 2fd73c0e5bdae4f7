"""Functions that a store runs on its samples.

    import millrace

    @millrace.transform
    def thumbs(sample):
        sample["txt"] = sample["txt"].upper()
        return sample

`millrace transform add thumbs --python steps.py` uploads the file; the store runs the function in a sandbox, where this
package is a name without content. A sample is a dict of bytes by field, with its key as "__key__". The function gives a
dict, a list of dicts, or None for a sample that is left out.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, TypeVar, Union

Sample = Dict[str, Any]
Function = TypeVar("Function", bound=Callable[[Sample], Union[None, Sample, Iterable[Sample]]])


def transform(function: Function) -> Function:
    """Marks the function of a file that `millrace transform add --python FILE` registers. Here it stays what it is."""
    return function
