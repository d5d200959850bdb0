"""What is changed in other libraries, or in how they run, for a whole process: all of it, and what removes it.

=============================== ================================================== ===================================
what                            why                                                until
=============================== ================================================== ===================================
`keep_freed_memory`             glibc gives each operator's output back to the     torch allocates for itself on the
                                system, and the next waits for new pages           CPU
`declare_torchvision_operators` torchvision of one build beside torch of another   open_clip and transformers import
                                cannot be imported, nor can what imports it        torchvision only where they need it
`missing_weights_told`          diffusers throws away what transformers tells of   diffusers hands on the loading info
                                weights that a file lacks                          of components
=============================== ================================================== ===================================

`clinometer/__init__.py` sets ``OMP_WAIT_POLICY``, which must come before whatever may import torch. Nothing heavy is
imported at the top.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any

KEPT = (128 * 2**20, 32 * 2**20)
"""Bytes: blocks up to this size come from the heap, which keeps as much when they are freed. Older glibc takes no more
than the second."""
_MALLOC_SETTINGS = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h

_TORCHVISION_SCHEMAS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}

_swapping = RLock()


def keep_freed_memory() -> None:
    """Have glibc's allocator keep freed memory, unless the environment sets its own rules.

    On a CPU torch has no allocator of its own, and glibc returns every large block to the system: 277,000 page faults
    for 32 images of the reference model, up to a fifth of the processor's time. 768 images embedded by the reference
    CLIP on one core take 1.26 to 1.28 s with this and 1.71 to 1.97 s without; the process holds some 100 MiB more.
    Setting ``GLIBC_TUNABLES=glibc.malloc.tcache_count=7``, the default, switches it off. jemalloc or tcmalloc is faster
    still, and has to be preloaded by the user.
    """
    if sys.platform != "linux" or any(name in os.environ for name in _MALLOC_SETTINGS):
        return
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):  # musl, for one, has none
        return
    # The trim threshold only where the other was taken: either ends glibc's own way of finding both.
    if threshold := next((size for size in KEPT if library.mallopt(_M_MMAP_THRESHOLD, size)), None):
        library.mallopt(_M_TRIM_THRESHOLD, threshold)


def declare_torchvision_operators(torch: Any) -> None:
    """Declare the operators that torchvision expects, without an implementation, where its library cannot be loaded.

    Importing torchvision, and so open_clip or the CLIP of transformers, fails otherwise with ``operator
    torchvision::nms does not exist``, although nothing here detects boxes.
    """
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return
    # Load the real operators first where they do load: a schema may be defined only once in a process.
    for library in sorted(Path(spec.origin).parent.glob("_C*")):
        with suppress(OSError, ImportError, RuntimeError):
            torch.ops.load_library(str(library))
    for name, schema in _TORCHVISION_SCHEMAS.items():
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", schema.removeprefix(name))


@contextmanager
def missing_weights_told(tell: Callable[[str, Collection[str]], None]) -> Iterator[None]:
    """Record each model that transformers loads meanwhile: its source, and the weights it lacks."""
    import transformers

    plain = vars(transformers.PreTrainedModel)["from_pretrained"].__func__

    def from_pretrained(kind: Any, /, *args: Any, output_loading_info: bool = False, **options: Any) -> Any:
        model, loading = plain(kind, *args, output_loading_info=True, **options)
        path = args[0] if args else options.get("pretrained_model_name_or_path")
        tell(str(path or kind.__name__), loading["missing_keys"])
        return (model, loading) if output_loading_info else model

    with _swapping:
        transformers.PreTrainedModel.from_pretrained = classmethod(from_pretrained)
        try:
            yield
        finally:
            transformers.PreTrainedModel.from_pretrained = classmethod(plain)
