"""A pipeline's images: bytes before they leave the device, and flags in place of blackened pictures (decision 35).

A pipeline asked for arrays moves floats to its host, four bytes a value or two, and the host rounds them to one while
the device waits: 0.4 s of one core for 64 images of 512 x 512, which an accelerator draws in two or three seconds.
Asking for tensors would not do, since pipelines differ in what they give then. Its image processor is where that
happens, so it is asked for the floats where they are::

    b = round(255 · x)        x in [0, 1]; halves to even, as numpy rounds

and the pipeline hands on the bytes. One that does not show its images through an image processor, or not as pictures
of three channels, gives what it gives; so does one whose images are with the host already, where numpy is as quick.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from clinometer._torch import torch
from clinometer.errors import ModelError


@dataclass
class Finiteness:
    """Of each image that an image processor turned into bytes, in turn: whether its values were finite."""

    finite: list[bool] = field(default_factory=list)

    def is_finite(self, images: np.ndarray) -> list[bool]:
        """Whether the values of each image (n, height, width, 3) are finite, or were before they became bytes."""
        if self.finite and images.dtype == np.uint8:  # a pipeline may show its images one by one
            return self.finite[-len(images) :]
        return [bool(np.isfinite(image).all()) for image in images]


@contextmanager
def in_bytes(pipeline: Any) -> Iterator[Finiteness]:
    """Have a pipeline that is asked for arrays, ``output_type="np"``, give (n, height, width, 3) uint8."""
    finiteness = Finiteness()
    processor: Any = getattr(pipeline, "image_processor", None)
    original = getattr(processor, "postprocess", None)
    if original is None:
        yield finiteness
        return

    def postprocess(image: Any, output_type: str = "pil", *arguments: Any, **options: Any) -> Any:
        if output_type != "np" or not _is_away(image):  # a safety checker is shown pictures
            return original(image, output_type, *arguments, **options)
        values = original(image, "pt", *arguments, **options)
        if not isinstance(values, torch.Tensor) or values.ndim != 4 or values.shape[1] != 3:
            return original(image, output_type, *arguments, **options)
        finiteness.finite += torch.isfinite(values).flatten(1).all(dim=1).tolist()
        rounded = (values.float() * 255).round_().to(torch.uint8)
        return rounded.permute(0, 2, 3, 1).contiguous().cpu().numpy()

    processor.postprocess = postprocess
    try:
        yield finiteness
    finally:
        del processor.postprocess


def _is_away(image: Any) -> bool:
    return isinstance(image, torch.Tensor) and image.device.type != "cpu"


MARK: Final = "mark"
"""What a card's settings say of a checker whose flags are kept beside the pictures."""


def keep_pictures(pipeline: Any, source: str) -> str:
    """Have a pipeline's checker judge copies, which it blackens, and keep its flags for `marks_of`.

    The pipeline is told that nothing was flagged: a flagged picture it would leave in the wrong range of values.
    Returns what a card says of it.

    Raises
    ------
    ModelError
        The pipeline has no checker.
    """
    checker: Any = getattr(pipeline, "safety_checker", None)
    if checker is None:
        raise ModelError(
            f"found {MARK!r}, but {source} has no checker of its own; leave it out", field="safety_checker"
        )
    judge, checker.marks = checker.forward, []

    def forward(*positional: Any, images: Any, **options: Any) -> tuple[Any, ...]:
        _, *kinds = judge(*positional, images=deepcopy(images), **options)
        checker.marks += [any(flags) for flags in zip(*kinds, strict=True)]
        return (images, *([False] * len(images) for _ in kinds))

    checker.forward = forward
    return MARK


def marks_of(pipeline: Any, size: int) -> list[bool]:
    """Which of the images that a pipeline drew last its checker marked."""
    marks: list[bool] = pipeline.safety_checker.marks
    last = marks[-size:]
    marks.clear()
    return last
