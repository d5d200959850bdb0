"""The one door to torch: everything that needs it imports it from here.

Importing this module imports torch, so nothing that must start fast may import it at its top. What is put right on the
way in stands in :mod:`clinometer._compat`. A machine without torch gets a message instead of a traceback. See decision
53.
"""

from __future__ import annotations

from collections.abc import Iterable

from clinometer._compat import declare_torchvision_operators, keep_freed_memory
from clinometer.errors import ModelError

try:
    import torch
except ImportError as error:  # pragma: no cover - needs a machine without torch
    raise ModelError(
        "PyTorch is not installed, and generators and encoders need it; install it with "
        "`pip install 'clinometer[models]'`"
    ) from error

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
        raise ModelError(f"found {device!r}, expected auto, cpu, cuda, cuda:N or mps", field="device") from error
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    missing = not available.get(chosen.type, True)
    if missing or (chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count()):
        raise ModelError(
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
        raise ModelError(f"found {dtype!r}, expected auto, {', '.join(_DTYPES)}", field="dtype")
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


def bytes_of(parts: Iterable[object], device: torch.device | None = None) -> int:
    """Bytes of the weights of those parts that are modules, or of those on a kind of device.

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
    """Let go of the weights of those parts that are modules. Their shapes stay; to compute with them is an error."""
    for part in parts:
        if isinstance(part, torch.nn.Module):
            part.to("meta")
