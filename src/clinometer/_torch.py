"""The one door to torch: everything that needs it imports it from here.

Importing this module imports torch, so nothing that must start fast may import it at its top. A machine
without torch gets a message instead of a traceback. See decision 53.

What is changed in other libraries, or in how they run, for a whole process is all here, with what removes it:

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

`clinometer/__init__.py` sets ``OMP_WAIT_POLICY`` and ``ORT_DISABLE_TELEMETRY``, which must come before whatever may
import torch or onnxruntime.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any

from clinometer.errors import ModelError

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
    """Make glibc's allocator keep freed memory, unless the environment sets its own rules.

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


try:
    import torch
except ImportError as error:  # pragma: no cover - needs a machine without torch
    raise ModelError.lacks_package("PyTorch", "clinometer[models]") from error

__all__ = [
    "bytes_of",
    "drop_weights",
    "dtype_name",
    "is_out_of_memory",
    "resolve_device",
    "resolve_dtype",
    "to_device",
    "torch",
]

_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
keep_freed_memory()
declare_torchvision_operators(torch)


def resolve_device(device: str | None = None) -> torch.device:
    """Choose a device: ``None`` or ``"auto"`` takes CUDA, else Apple's MPS, else the CPU.

    Raises
    ------
    ModelError
        The name is not a device's, or this machine has no such device.
    """
    if device in (None, "auto"):
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise ModelError.expected_one_of(("auto", "cpu", "cuda", "cuda:N", "mps"), device, field="device") from error
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    missing = not available.get(chosen.type, True)
    if missing or (chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count()):
        raise ModelError.not_found(
            f"{device!r} was asked for, but torch sees none here; use --device cpu or auto", field="device"
        )
    return chosen


def resolve_dtype(dtype: str | None, device: torch.device) -> torch.dtype:
    """Choose a precision: ``None`` or ``"auto"`` takes float16 on CUDA and float32 elsewhere.

    float16 and not bfloat16, because its three more bits of mantissa keep images closer to float32.

    Raises
    ------
    ModelError
        The name is not one of float32, float16, bfloat16.
    """
    if dtype in (None, "auto"):
        return torch.float16 if device.type == "cuda" else torch.float32
    if dtype not in _DTYPES:
        raise ModelError.expected_one_of(["auto", *_DTYPES], dtype, field="dtype")
    return _DTYPES[dtype]


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy a tensor of the CPU to a device; CUDA goes on meanwhile, and waits for it only where it needs it."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def dtype_name(dtype: torch.dtype) -> str:
    """Name a dtype as a card records it: ``torch.float16`` is ``"float16"``."""
    return str(dtype).removeprefix("torch.")


_OUT_OF_MEMORY = ("out of memory", "cublas_status_alloc_failed", "cudnn_status_alloc_failed")
"""What libraries below torch say, whose errors are RuntimeErrors like all others."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether a smaller batch may succeed where this error arose (CUDA, MPS or CPU memory)."""
    from accelerate.utils.memory import should_reduce_batch_size  # type: ignore[import-untyped]

    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    if not isinstance(error, Exception):
        return False
    return bool(should_reduce_batch_size(error)) or any(words in str(error).lower() for words in _OUT_OF_MEMORY)


def bytes_of(parts: Iterable[object], device: torch.device | None = None) -> int:
    """Count the bytes of the weights of those parts that are modules, or of those on a kind of device.

    A weight that several share counts once.
    """
    sizes = {
        tensor.data_ptr(): tensor.numel() * tensor.element_size()
        for part in parts
        if isinstance(part, torch.nn.Module)
        for tensor in (*part.parameters(), *part.buffers())
        if device is None or tensor.device.type == device.type
    }
    return sum(sizes.values())


def drop_weights(parts: Iterable[object]) -> None:
    """Release the weights of the parts that are modules; their shapes stay, and computing with them is an error."""
    for part in parts:
        if isinstance(part, torch.nn.Module):
            part.to("meta")
