"""Imports torch if it is installed, and otherwise defines the few of its names that the package needs."""
from __future__ import annotations

import sys
from typing import Any


try:
    from torch.utils.data import DataLoader, IterableDataset
except ImportError:
    class IterableDataset:  # type: ignore[no-redef]
        """What torch.utils.data.IterableDataset is to a DataLoader; nothing without one."""

    class DataLoader:  # type: ignore[no-redef]
        def __init__(self, *args: Any, **kw: Any) -> None:
            raise ModuleNotFoundError("WebLoader needs torch: install it, or iterate over the dataset itself",
                                      name="torch")


def is_tensor(value: Any) -> bool:
    """Without torch in the process nothing can be a tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)
