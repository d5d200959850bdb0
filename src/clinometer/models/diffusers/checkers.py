"""A pipeline's safety checker that says what it flags and blackens nothing. See decision 35."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

from clinometer.errors import ModelError

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
