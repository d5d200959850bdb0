"""A device that is not there: tensors that say they lie on it, and an error where they meet the CPU's.

Where no accelerator is at hand this shows that nothing of a model, its inputs or its outputs is left on the wrong side,
which the CPU alone cannot: there all is on one. The numbers are the CPU's own. It stays in the process that registers
it, so tests import it in a process of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from clinometer._torch import torch

from torch.utils._python_dispatch import TorchDispatchMode  # isort: skip - after _torch
from torch.utils._pytree import tree_leaves, tree_map  # isort: skip
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend  # isort: skip

DEVICE = "pretended"

MIXING = {"aten::copy_", "aten::_to_copy", "aten::index", "aten::index_put_", "aten::_index_put_impl_"}
"""Operators that take tensors of both: copies, and positions of the CPU in a tensor of an accelerator."""

_setup_privateuseone_for_python_backend(DEVICE)


class Pretended(torch.Tensor):
    """A tensor of the CPU that says it lies on the device."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> Pretended:
        made: Pretended = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device(DEVICE, 0),
        )
        made.held = held
        return made

    def tolist(self) -> Any:
        return self.held.tolist()

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(function, args, kwargs or {})


class _Mode(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(function, args, kwargs or {})


def _run(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Do on the CPU what is asked of the device; scalars of the CPU may enter anywhere, as on a real one."""
    name = function._schema.name
    tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    there = [each for each in tensors if isinstance(each, Pretended)]
    here = [each for each in tensors if not isinstance(each, Pretended) and each.dim() > 0]
    if there and here and name not in MIXING:
        shapes = [[tuple(each.shape) for each in side] for side in (there, here)]
        raise RuntimeError(f"{name}: tensors on two devices, {shapes[0]} on {DEVICE} and {shapes[1]} on the CPU")
    if name == "aten::_fused_sdp_choice":
        return 0  # the plain formula: the others are kernels of their devices
    stays = bool(there)
    if kwargs.get("device") is not None:
        stays = torch.device(kwargs["device"]).type == DEVICE
        kwargs = {**kwargs, "device": torch.device("cpu")}
    elif name == "aten::copy_":
        stays = isinstance(args[0], Pretended)
    given = {id(each.held): each for each in there}

    def inner(each: Any) -> Any:
        return each.held if isinstance(each, Pretended) else each

    def outer(each: Any) -> Any:
        if id(each) in given:
            return given[id(each)]
        return Pretended(each) if stays and isinstance(each, torch.Tensor) else each

    return tree_map(outer, function(*tree_map(inner, args), **tree_map(inner, kwargs)))


_kernels = torch.library.Library("aten", "IMPL")  # for the calls that no mode sees, such as torch.tensor(…, device=…)


def _empty(size: Any, *, dtype: Any = None, **options: Any) -> Pretended:
    return Pretended(torch.empty(size, dtype=dtype, device="cpu"))


def _empty_strided(size: Any, stride: Any, *, dtype: Any = None, **options: Any) -> Pretended:
    return Pretended(torch.empty_strided(size, stride, dtype=dtype, device="cpu"))


def _copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    held = [each.held if isinstance(each, Pretended) else each for each in (source, target)]
    held[1].copy_(held[0])
    return target


_kernels.impl("empty.memory_format", _empty, "PrivateUse1")
_kernels.impl("empty_strided", _empty_strided, "PrivateUse1")
_kernels.impl("_copy_from", _copy_from, "PrivateUse1")
_kernels.impl("_local_scalar_dense", lambda tensor: tensor.held.item(), "PrivateUse1")


def _no_gradients(mode: Any = True) -> Any:
    """In place of `torch.inference_mode`, whose tensors cannot be wrapped; also without its parentheses."""
    return mode if callable(mode) else torch.no_grad()


@contextmanager
def pretended() -> Iterator[str]:
    """Have the device while this lasts: its name."""
    swaps = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with patch.object(torch, "inference_mode", _no_gradients), _Mode():
            yield DEVICE
    finally:
        torch.__future__.set_swap_module_params_on_conversion(swaps)
