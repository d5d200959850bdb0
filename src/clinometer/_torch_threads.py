"""How many threads torch computes with, for a process that may never need torch."""

from __future__ import annotations

import os


def use_threads(count: int) -> None:
    """Have torch compute with so many threads, whenever it is imported."""
    import sys

    os.environ["OMP_NUM_THREADS"] = str(count)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)
