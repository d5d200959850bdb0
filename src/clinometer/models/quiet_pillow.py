"""Pillow without its warnings, in any number of threads."""

from __future__ import annotations

import threading
import warnings
from typing import Final


class _NoWarnings:
    """Keeps Pillow from warning while any thread decodes: our own limit is checked, and oddities change no pixel.

    What is warned of is the whole process's. So the first thread that comes in says so and the last one that leaves
    takes it back; two that did so side by side would leave it changed for good.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._filters = warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.filterwarnings("ignore", module=r"PIL\.")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._filters.__exit__(None, None, None)


no_warnings: Final = _NoWarnings()
