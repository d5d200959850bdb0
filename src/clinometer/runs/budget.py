"""What the rest of a run will cost, and whether its user agreed to it, before a cent is spent."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from typing import Final

from clinometer.errors import ModelError
from clinometer.models.abilities import Priced, offers
from clinometer.models.protocols import Generator
from clinometer.runs.store import Run

CENT: Final = Decimal("0.01")


def remaining_images(run: Run) -> int:
    """Images that are still to be drawn; those that are read from files cost nothing."""
    return sum(not sample.file for part in run.parts for sample in run.undrawn(part))


def price_of(generator: Generator) -> float:
    """What an image of a generator costs; 0 where it names no price."""
    return float(generator.price_per_image) if offers(generator, Priced) else 0.0


def require_budget(run: Run, generator: Generator, budget: float | None, *, further: int = 0) -> None:
    """Refuse to go on where the images that are missing cost more than ``budget``; a free model needs none.

    ::

        total = (images still to be drawn + images that later rounds may add at most) · price_per_image, up to the cent

    Raises
    ------
    ModelError
        No budget was given for a model with a price, or it is too small; the message says the total.
    """
    price = price_of(generator)
    images = remaining_images(run) + further
    total = cost(images, price)
    if total == 0 or (budget is not None and total <= budget):
        return
    budget_in_words = "no budget" if budget is None else f"a budget of {budget:g}"
    raise ModelError(
        f"{generator.card.name}: {images} images at {price:g} each cost {total:.2f}, found {budget_in_words}; "
        f"give --budget {total:.2f} or more, or fewer images by --images and another --out"
    )


def cost(images: float, price: float) -> float:
    """What images cost, rounded up to the cent, as decimal numbers are: 3 at 0.1 cost 0.3 and 9 at 0.0004 cost 0.01.

    >>> cost(3, 0.1), cost(9, 0.0004)
    (0.3, 0.01)
    """
    total = Decimal(repr(float(images))) * Decimal(repr(float(price)))
    return float(total.quantize(CENT, ROUND_CEILING)) if total.is_finite() else float(total)
