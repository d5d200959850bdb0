"""Why a number of a study is missing: one sentence, the first that applies."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from clinometer.studies.leaning.scores.design import Layout

TEXT_ONLY = "purely textual: nothing but its words can be resampled, see the stimulus interval"
ZERO_TT = "TT is 0: bias amplification divides by it"

_OF_TARGET_IMAGES = {"ii", "ita"}
_OF_ATTRIBUTE_IMAGES = {"ii", "itp"}
_OF_TEXTS = {"itp", "ita", "tt"}
_OF_WORDS = {"ita", "tt"}


def value_reason(
    layout: Layout, reads_text: bool, target: int | None, modalities: Collection[str], groups: Collection[int]
) -> str:
    """Why a number made of these modalities and groups has no estimate; empty if it should have one."""
    return next(_missing_items(layout, reads_text, target, set(modalities), groups), "")


def interval_reason(layout: Layout, target: int | None, modalities: Collection[str], groups: Collection[int]) -> str:
    """Why it has no interval: it rests on no image, or a single image has no spread within its prompt."""
    if "tt" in modalities and not _OF_TARGET_IMAGES & set(modalities):
        of_words = stimulus_reason(layout, modalities, groups)
        if of_words or set(modalities) == {"tt"}:
            return of_words or TEXT_ONLY
    if target is not None and layout.target_sizes[target] == 1 and _OF_TARGET_IMAGES & set(modalities):
        return "no interval from one image of the target"
    for g in groups:
        if 1 in layout.prompt_sizes[g] and _OF_ATTRIBUTE_IMAGES & set(modalities):
            return f"no interval: a prompt of group {layout.groups[g]!r} has one image"
    return ""


def stimulus_reason(layout: Layout, modalities: Collection[str], groups: Collection[int]) -> str:
    """Why it has no stimulus interval: a single word has no spread within its group."""
    for g in groups:
        if layout.word_counts[g] == 1 and _OF_WORDS & set(modalities):
            return f"no stimulus interval: group {layout.groups[g]!r} has one word"
    return ""


def _missing_items(
    layout: Layout, reads_text: bool, target: int | None, modalities: set[str], groups: Collection[int]
) -> Iterator[str]:
    if _OF_TEXTS & modalities and not reads_text:
        yield "the encoder reads no text"
    if target is not None and layout.target_sizes[target] == 0 and _OF_TARGET_IMAGES & modalities:
        yield "no image of the target"
    for g in groups:
        if layout.image_counts[g] == 0 and _OF_ATTRIBUTE_IMAGES & modalities:
            yield f"no image of group {layout.groups[g]!r}; draw or import some"
        if layout.word_counts[g] == 0 and _OF_WORDS & modalities:
            yield f"no word of group {layout.groups[g]!r}"
