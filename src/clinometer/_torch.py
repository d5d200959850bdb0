"""The one door to torch: everything that needs it imports it from here.

Importing this module imports torch, so nothing that must start fast may import it at its top. Four things
are put right on the way in:

* Idle OpenMP threads sleep instead of spinning (``OMP_WAIT_POLICY=PASSIVE``, unless it is set already),
  because a run shares its cores with image encoding and with other workers.
* torchvision's compiled operators do not load beside a torch of another build (a CUDA torchvision beside a
  CPU torch). Importing torchvision, and so open_clip or the CLIP of transformers, then fails with ``operator
  torchvision::nms does not exist``, although nothing here detects boxes. The missing schemas are declared,
  without an implementation.
* glibc keeps memory that torch frees (`KEPT`), unless the environment says how it is to allocate. It would give every
  operator's output back to the system, whose pages the next operator waits for.
* A machine without torch gets a message instead of a traceback.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from contextlib import suppress
from pathlib import Path

from clinometer.errors import ModelError

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

try:
    import torch
except ImportError as error:  # pragma: no cover - needs a machine without torch
    raise ModelError(
        "PyTorch is not installed, and generators and encoders need it; install it with "
        "`pip install 'clinometer[models]'`"
    ) from error

__all__ = ["dtype_name", "is_out_of_memory", "resolve_device", "resolve_dtype", "to_device", "torch"]

_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
_TORCHVISION_SCHEMAS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}


KEPT = (128 * 2**20, 32 * 2**20)
"""Bytes: blocks up to this size come from the heap, which keeps as much when they are freed. Older glibc takes no more
than the second."""
_MALLOC_SETTINGS = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def _keep_freed_memory() -> None:
    """Tell glibc's allocator to keep what is freed, unless the environment has told it something."""
    if sys.platform != "linux" or any(name in os.environ for name in _MALLOC_SETTINGS):
        return
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):  # musl, for one, has none
        return
    # The trim threshold only where the other was taken: either ends glibc's own way of finding both.
    if taken := next((size for size in KEPT if library.mallopt(_M_MMAP_THRESHOLD, size)), None):
        library.mallopt(_M_TRIM_THRESHOLD, taken)


def _declare_missing_torchvision_operators() -> None:
    """Declare the operators that torchvision expects, where its compiled library cannot be loaded."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return
    # Load the real operators first where they do load: a schema may be defined only once in a process.
    for library in sorted(Path(spec.origin).parent.glob("_C*")):
        with suppress(OSError, ImportError, RuntimeError):
            torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
    for name, schema in _TORCHVISION_SCHEMAS.items():
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", schema.removeprefix(name))


_keep_freed_memory()
_declare_missing_torchvision_operators()


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
        raise ModelError(f"device: found {device!r}, expected auto, cpu, cuda, cuda:N or mps") from error
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    missing = not available.get(chosen.type, True)
    if missing or (chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count()):
        raise ModelError(f"device: {device!r} was asked for, but torch sees none here; use --device cpu or auto")
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
        raise ModelError(f"dtype: found {dtype!r}, expected auto, {', '.join(_DTYPES)}")
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
    """Tell whether a smaller batch may succeed where this error arose (CUDA, MPS or CPU memory)."""
    from accelerate.utils.memory import should_reduce_batch_size  # type: ignore[import-untyped]

    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    if not isinstance(error, Exception):
        return False
    return bool(should_reduce_batch_size(error)) or any(words in str(error).lower() for words in _OUT_OF_MEMORY)
