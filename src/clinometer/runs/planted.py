"""What was planted in a run's model, and how it was read."""

from __future__ import annotations

from collections.abc import Mapping

from clinometer.models import reference
from clinometer.runs.store import Run


def planted_of(run: Run) -> Mapping[str, Mapping[str, float]] | None:
    """What was planted in the run's model: concept → group → probability; None for a model nobody planted.

    Only the weights that were planted have a planted truth, as they were: a name alone is not enough.
    """
    card = run.model_card
    is_planted = card["weights_sha256"] == reference.card()["weights_sha256"] and not card["settings"].get("lora")
    return reference.planted() if is_planted else None


def readings_of(run: Run) -> Mapping[str, Mapping[str, float]] | None:
    """How the reference encoder and the independent judge read the same images, for a planted run that it read.

    None for any other model or encoder, and for other settings than those the images were drawn with: guidance moves
    what a model draws.
    """
    is_read = any(card["name"] == "reference" for card in run.encoder_cards.values())
    if not is_read or planted_of(run) is None:
        return None
    settings, defaults = run.model_card["settings"], reference.card()["defaults"]
    drawn_so = (settings["steps"], settings["guidance_scale"]) == (defaults["steps"], defaults["guidance"])
    return reference.readings() if drawn_so else None
