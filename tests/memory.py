"""A limit to memory that a machine without one can be tested with."""

from __future__ import annotations

from typing import Any

from clinometer._torch import torch


def limited(module: torch.nn.Module, limit: int) -> list[int]:
    """Let a module raise what a full device raises, for batches above a limit; the sizes it is asked for, as they come.

    The limit is the module's attribute ``limit``, so that memory can be taken away while it is at work.
    """
    asked: list[int] = []
    module.limit = limit  # type: ignore[assignment]

    def hold(module: Any, inputs: tuple[torch.Tensor, ...]) -> None:
        asked.append(len(inputs[0]))
        if len(inputs[0]) > module.limit:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    module.register_forward_pre_hook(hold)
    return asked
