"""Partial local shuffling: every rank keeps its share of the samples on local storage and exchanges a fraction each epoch."""
from __future__ import annotations

from .plan import Simulation, local_order

__all__ = ["Simulation", "local_order"]
