"""torch where it is there; enough of its names where it is not. Importing torch waits until somebody needs it."""
from __future__ import annotations

import sys
from typing import Any


def _torch_is_there() -> bool:
    import importlib.util

    return "torch" in sys.modules or importlib.util.find_spec("torch") is not None


if _torch_is_there():
    from torch.utils.data import DataLoader, IterableDataset
else:
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
