"""What the rest of a run will cost, and whether its user agreed to it, before a cent is spent."""

from __future__ import annotations

from clinometer.errors import ModelError
from clinometer.models.protocols import Generator
from clinometer.runs.store import Run


def remaining_images(run: Run) -> int:
    """Images that are still to be drawn; those that are read from files cost nothing."""
    return sum(not sample.file for part in run.parts for sample in run.undrawn(part))


def require_budget(run: Run, generator: Generator, budget: float | None, *, further: int = 0) -> None:
    """Refuse to go on where the images that are missing cost more than ``budget``; a free model needs none.

    ::

        total = (images still to be drawn + images that later rounds may add at most) · price_per_image

    Raises
    ------
    ModelError
        No budget was given for a model with a price, or it is too small; the message says the total.
    """
    price = float(getattr(generator, "price_per_image", 0.0))
    images = remaining_images(run) + further
    total = images * price
    if total <= (budget or 0.0) or total == 0:
        return
    found = "no budget" if budget is None else f"a budget of {budget:g}"
    raise ModelError(
        f"{generator.card.name}: {images} images at {price:g} each cost {total:.2f}, found {found}; "
        f"give --budget {total:.2f} or more, or fewer images by --images"
    )
