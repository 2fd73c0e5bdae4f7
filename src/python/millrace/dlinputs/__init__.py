"""dlinputs' interface over Millrace's engine.

    from millrace.dlinputs import filters, gopen
    dataset = gopen.sharditerator("http://127.0.0.1:9400/b/imagenet-@001000.tgz")
    pipeline = filters.compose(filters.shuffle(1000), filters.batch(20))
    for batch in pipeline(dataset):
        batch["png"], batch["cls"]
"""
from __future__ import annotations

from . import filters, gopen
from .gopen import sharditerator, sharditerator_once, shardwriter

__all__ = ["filters", "gopen", "sharditerator", "sharditerator_once", "shardwriter"]
