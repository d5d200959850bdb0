"""The pictures of an association study: each stimulus as it is, beside its own images with each attribute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clinometer.report import wording
from clinometer.report.gallery import (
    FEWEST_PER_PROMPT,
    MOST_IMAGES,
    MOST_PER_PROMPT,
    Samples,
    Strip,
    all_there,
    counts_in_words,
    losses,
    sample_tile,
)
from clinometer.report.sections import refusal_words
from clinometer.report.wording import said_of, verdict_group_of
from clinometer.studies.t2iat.view import AssociationView


def association_gallery(view: AssociationView) -> dict[str, Any]:
    """Strips of every stimulus, concept by concept, and what was refused."""
    samples = Samples(view.report.samples)
    if not samples:
        return {"reason": "The run holds no images."}
    by_group = samples.by("concept", "group")
    limit = max(FEWEST_PER_PROMPT, min(MOST_PER_PROMPT, MOST_IMAGES // len(by_group)))
    concepts = [
        {
            "label": view.concept_label(name),
            "stimuli": [_stimulus(view, name, stimulus.name, by_group, limit) for stimulus in concept.stimuli],
        }
        for name, concept in view.suite.concepts.items()
    ]
    return {
        "reason": "",
        "concepts": concepts,
        "losses": losses(view, samples),
        "refusal": refusal_words(view),
        "there": all_there(len(samples)),
    }


def _stimulus(
    view: AssociationView, concept: str, name: str, by_group: Mapping[tuple[str, ...], Samples], limit: int
) -> dict[str, Any]:
    row = view.associations.get(name)
    stimulus = next(stimulus for stimulus in view.suite.concepts[concept].stimuli if stimulus.name == name)
    own = [by_group.get((name, group), Samples(view.report.samples[:0])) for group in ("", *view.suite.pair)]
    labels = (view.suite.concepts[concept].neutral_prompt(stimulus), *(view.label(group) for group in view.suite.pair))
    return {
        "name": name,
        "lean": verdict_group_of(row),
        "verdict": said_of(row, view.label) if row else "not measured",
        "value": wording.signed(row.value, view.digits) if row is not None and row.defined else "",
        "strips": [_strip(view, label, samples, limit) for label, samples in zip(labels, own, strict=True)],
        "counts": counts_in_words(*own),
    }


def _strip(view: AssociationView, label: str, samples: Samples, limit: int) -> Strip:
    """One in so many images where there are more than the page takes, so that every word of an attribute is seen."""
    step = max(1, -(-len(samples) // limit))
    selection = samples[::step]
    tiles = [
        sample_tile(view, s, f"{s['prompt']}, image {order * step + 1} of {len(samples)}")
        for order, s in enumerate(selection)
    ]
    return Strip(label, tiles, len(samples) - len(selection))
