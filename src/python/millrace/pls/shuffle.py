"""PartialShuffle: the exchange beside the training loop; LocalSampler and Dataset: what a DataLoader needs."""
from __future__ import annotations

import atexit
import contextlib
import io
import os
import sys
import warnings
from typing import Any, Callable, Dict, Iterator, Optional, Set

from .. import _core, arguments
from ..errors import InvalidError
from .group import agree, world
from .store import Sample, Store, exchange_options

IMAGE_FIELDS = ("jpg", "jpeg", "png", "webp", "ppm", "pgm", "bmp", "tif", "tiff")


def _is_of_the_engine(encoded: bytes) -> bool:
    """JPEG, PNG or WebP, by the first bytes: the engine decodes these; what else PIL reads, it alone reads."""
    return encoded.startswith((b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")) or (encoded[:4] == b"RIFF" and encoded[8:12] == b"WEBP")


def decode_image(sample: Sample) -> Any:
    """The sample's image as a PIL image in RGB: decoded by the engine, as everywhere else, so that damage is an error."""
    from PIL import Image
    for field, view in sample.fields.items():
        if field.rsplit(".", 1)[-1] not in IMAGE_FIELDS:
            continue
        encoded = bytes(view)
        if _is_of_the_engine(encoded):
            return Image.fromarray(_core.decode_image(encoded, 3))
        with Image.open(io.BytesIO(encoded)) as image:
            return image.convert("RGB")
    raise InvalidError(f"sample {sample.key} has no image: its fields are {', '.join(sample.fields)}")


class Dataset:
    """Samples by slot, for a torch DataLoader: (decode(sample), label). Worker processes follow the store by
    themselves, also persistent ones: each look is one stat()."""

    def __init__(self, store: Store, decode: Callable[[Sample], Any] = decode_image, transform: Optional[Callable[[Any], Any]] = None,
                 target_transform: Optional[Callable[[int], Any]] = None, check: bool = False):
        self.store, self.decode, self.transform, self.target_transform, self.check = store, decode, transform, target_transform, check

    def __len__(self) -> int:
        return len(self.store)

    def __getitem__(self, slot: int) -> Any:
        sample = self.store.sample(slot, self.check)
        value, label = self.decode(sample), sample.label
        if self.transform is not None:
            value = self.transform(value)
        return value, label if self.target_transform is None else self.target_transform(label)


class LocalSampler:
    """The slots of this rank in an order of its own for every epoch. All ranks give equally many, so that none waits
    for another at the end; `even=False` gives all. In a node pool each rank of the node takes its share of the pool,
    dealt anew every epoch."""

    def __init__(self, dataset: Any, seed: int = 0, *, even: bool = True):
        self.store = getattr(dataset, "store", dataset)
        self.seed, self.even, self.epoch = arguments.whole("seed", seed), even, 0
        self.start = 0  # how far the last iteration came
        self._from = 0  # where the next one begins: a state's place, once
        if even and self.store.least == 0:
            raise InvalidError("a rank has no samples, so that with even=True none would train on any: take fewer ranks, or even=False")
        if even:
            self._tell_what_is_left_out()

    def _tell_what_is_left_out(self) -> None:
        held, least = self.store.held, self.store.least
        left_out = sum(held) - least * len(held)
        leads = self.store.pool is None or self.store.pool.group.rank == 0
        if leads and left_out >= len(held):  # an odd sample here and there is not worth a word
            warnings.warn(f"ranks hold {least} to {max(held)} samples: an epoch takes {least} of each, {least * len(held)} of {sum(held)} in "
                          "all; partition=\"random\" or \"contiguous\" gives all ranks equally many, `millrace pls redeal` levels "
                          "stores that are there, even=False gives every rank all that it has", stacklevel=3)

    def set_epoch(self, epoch: int) -> None:
        self.epoch, self.start, self._from = arguments.whole("epoch", epoch), 0, 0

    def __len__(self) -> int:
        pool = self.store.pool
        if self.even or pool is None:
            return self.store.least
        return len(range(pool.local_rank, len(self.store), pool.local_size))

    def __iter__(self) -> Iterator[int]:
        pool = self.store.pool
        number, local_rank, local_size = (pool.number, pool.local_rank, pool.local_size) if pool is not None else (0, 0, 1)
        order = _core.pls_local_order(self.seed, self.epoch, number, len(self.store))
        first, self._from = self._from, 0
        for place, slot in enumerate(order[local_rank::local_size][: len(self)].tolist()[first:], first):
            self.start = place + 1
            yield slot
        self.start = 0

    def state_dict(self) -> Dict[str, int]:
        """How far the sampler has handed out slots; a DataLoader with workers asks ahead of what was trained on."""
        return {"seed": self.seed, "epoch": self.epoch, "start": self.start}

    def load_state_dict(self, state: Dict[str, int]) -> None:
        self.seed, self.epoch, self.start = state["seed"], state["epoch"], state["start"]
        self._from = self.start


_begun: Set["PartialShuffle"] = set()  # whose exchange is neither committed nor dropped


@atexit.register
def _end_all_ranks() -> None:
    """A program that ends in the middle of an epoch would let the others wait for it, here and in their gradients."""
    for shuffle in _begun:
        if shuffle.group.size > 1 and shuffle._begun_by == os.getpid():
            print(f"rank {shuffle.group.rank} ended before its exchange was committed: all ranks end, and a restart goes on from "
                  f"epoch {shuffle.store.epoch}", file=sys.stderr, flush=True)
            shuffle.group.abort(1)


class PartialShuffle:
    """Exchanges a fraction of the samples in every epoch, in a thread of its own while training goes on.

        shuffle = PartialShuffle(store, fraction=0.1)
        for epoch in range(epochs):
            with shuffle.epoch(epoch):
                sampler.set_epoch(epoch)
                for x, y in loader: step(x, y)

    fraction: a number, "auto" (a tenth until ranks' labels are as mixed as chance has it), "auto:0.3", or {epoch: q}.
    select: "oldest", "random", "label-aware", or a function (ids, labels, count) -> slots.
    policy: "shift", or "paper": the published rule. All ranks give the same settings.

    A run that is killed goes on from the last epoch that all ranks committed: open the store, and begin with
    `shuffle.next_epoch`; epochs that were committed already are not exchanged again.
    """

    def __init__(self, store: Store, fraction: Any = 0.1, *, select: Any = "oldest", partners: int = 32, policy: str = "shift",
                 seed: int = 0, timeout: float = 600.0, slack: Any = "64MiB"):
        self.store = store
        self.options = exchange_options(fraction=fraction, select=select, partners=partners, policy=policy, seed=seed, timeout=timeout,
                                        slack=slack)
        self.group = store.pool.group if store.pool is not None else world()
        exchangers = store.pool.exchangers if store.pool is not None else self.group
        self._exchange = None
        failure: Optional[BaseException] = None
        try:
            if exchangers is not None:
                self._exchange = _core.PlsExchange(store.directory, exchangers, self.options)
        except Exception as problem:
            failure = problem
        self._settle(failure)

    def _settle(self, failure: Optional[BaseException]) -> None:
        """Raises the failure; in a node pool all ranks that share the store wait for each other, and fail where one did."""
        if self.store.pool is not None and self.store.pool.node is not None:
            agree(self.store.pool.node, failure)
        elif failure is not None:
            raise failure

    @property
    def next_epoch(self) -> int:
        """The epoch that the store is at: the first whose exchange is not committed."""
        return self.store.epoch

    def begin(self) -> None:
        if self._exchange is not None:
            self._exchange.begin()
        self._begun_by = os.getpid()  # not that of children, which end when they like
        _begun.add(self)

    def commit(self) -> None:
        """All ranks switch to the next epoch, or none."""
        _begun.discard(self)
        self._settle(None)  # nobody still reads what the exchange will change
        failure: Optional[BaseException] = None
        try:
            if self._exchange is not None:
                self._exchange.commit()
        except Exception as problem:
            failure = problem
        self._settle(failure)

    def cancel(self) -> None:
        """Drops the exchange on all ranks; waits until they are there."""
        _begun.discard(self)
        if self._exchange is not None:
            self._exchange.cancel()

    @contextlib.contextmanager
    def epoch(self, epoch: int) -> Iterator["PartialShuffle"]:
        """Exchanges while the body runs; commits at its end. An exception in the body drops the exchange, on all ranks."""
        if epoch > self.store.epoch:
            raise InvalidError(f"epoch {epoch} cannot be exchanged: the store is at epoch {self.store.epoch}")
        if epoch < self.store.epoch:  # committed before a restart
            yield self
            return
        self.begin()
        try:
            yield self
        except BaseException as problem:  # also sys.exit: the others would wait
            with contextlib.suppress(Exception, type(problem)):  # the trainer's own is the one to be seen
                self._settle(problem)
            self.cancel()
            raise
        try:
            self.commit()
        except Exception:
            self.cancel()  # a rank of the node failed
            raise

    def stats(self) -> Dict[str, Any]:
        """Sent and received, messages, seconds that were exposed to the trainer, label distance before the last exchange."""
        found = self._exchange.stats() if self._exchange is not None else {}
        homes = self.store.snapshot.homes()
        number = self.store.pool.number if self.store.pool is not None else 0
        found["home_share"] = float((homes == number).mean()) if len(homes) else 0.0
        return found

    def digest(self) -> Dict[str, int]:
        """Owners and contents of all ranks as numbers: the first equals a Simulation's, the second never changes."""
        owners, contents, samples = self._exchange.digest() if self._exchange is not None else (0, 0, 0)
        return {"owners": owners, "contents": contents, "samples": samples}

    def state_dict(self) -> Dict[str, Any]:
        kept = {name: value for name, value in self.options.items() if name in ("fraction", "policy", "select", "seed", "partners")}
        return {**kept, "epoch": self.store.epoch, "world": self.store.snapshot.world}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The samples are on the drives, which may be ahead of a checkpoint, never behind it."""
        for name in ("fraction", "policy", "select", "seed", "partners"):
            if state[name] != self.options[name]:
                raise InvalidError(f"the state was made with {name}={state[name]}, not {self.options[name]}")
        if self.store.epoch < state["epoch"]:
            raise InvalidError(f"the store is at epoch {self.store.epoch}, behind the state's {state['epoch']}: is it another one?")


__all__ = ["Dataset", "LocalSampler", "PartialShuffle", "decode_image"]
