"""Tables of what only some pairs of runs have: a mitigation and what it was of, and two runs that were traced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import isfinite
from typing import Final

from clinometer.report import wording
from clinometer.report.differences import DifferenceTable
from clinometer.report.rows import Row, Scores
from clinometer.runs.several import Comparison
from clinometer.studies.leaning.scores.mitigated import WITHOUT_PARITY, WITHOUT_PARITY_PLACES
from clinometer.suites import LeaningSuite

_DISTURBED: Final = {
    "named_changed": ("prompts that name a group: share of images that changed", "at most"),
    "fidelity": ("share of images nearest to their own prompt", "within ±"),
    "diversity": ("mean distance between two images of a concept", "within ±"),
    "skin": ("skin tone: degrees of the typology angle, lighter", "within ±"),
    "xmcas_similarity": ("similarity to the third group (xMCAS)", "within ±"),
    "xmcas_distance": ("distance from the unbiased point of xMCAS", "within ±"),
    "visible_change": ("how far an image is from its partner before, 1 − cosine", ""),
}


def mitigation_tables(comparison: Comparison, labels: tuple[str, str]) -> list[DifferenceTable]:
    """Judge a mitigation concept by concept, and say what else it disturbed; nothing of other pairs of runs."""
    scores = Scores.from_frame(comparison.scores)
    changes = scores.select("mitigation", "change")
    if not changes:
        return []
    before_and_after = [scores.by_concept("mitigation", component) for component in ("before", "after")]
    digits = wording.digits_for([row.value for row in changes])
    rows = [
        (
            f"{row.concept} (held out)" if row.setting else row.concept,
            *(wording.signed(each[row.concept].value, digits) for each in before_and_after),
            wording.signed(row.value, digits), wording.interval(row.low, row.high, digits),
            wording.bare_probability(row.q), row.verdict or row.reason,
        )
        for row in sorted(changes, key=lambda row: -abs(before_and_after[0][row.concept].value))
    ]  # fmt: skip
    suite = comparison.first.suite
    assert isinstance(suite, LeaningSuite)
    side = suite.label_of(suite.compared.a)
    note = (
        f"Positive leans to {side}, by the attribute images of {labels[0]}. {_verdict_words(changes)} No "
        "change: two one-sided tests keep it within the suite's margin; no change shown is less. q over the concepts."
    )
    counts = Counter(row.verdict or "no verdict" for row in changes)
    concepts = DifferenceTable(
        f"{labels[1]} as a mitigation of {labels[0]}",
        ("concept", "before", "after", "change", "95 %", "q", "verdict"),
        tuple(rows), tuple(f"{verdict}: {n}" for verdict, n in counts.most_common()), note,
    )  # fmt: skip
    further = [row for name in _DISTURBED for row in scores.select("mitigation", name) if not row.concept]
    skin = [row for row in scores.select("mitigation", "skin") if row.concept]
    changed = [f"{row.concept} ({wording.signed(row.value, 0)}°)" for row in skin if row.verdict == "changed"]
    skin_note = f" Skin tone is shown to have changed in {wording.listed(changed) if changed else 'no concept'}."
    worded = [(row, *_DISTURBED[row.component]) for row in further]
    limits = [f"{limit} {row.null:.3g}".replace("± ", "±") if row.null > 0 else "" for row, _, limit in worded]
    disturbed = DifferenceTable(
        "What else it disturbed",
        ("number", "value", "95 %", "limit", "verdict"),
        tuple(
            (_DISTURBED[row.component][0], wording.number(row.value, 3), wording.interval(row.low, row.high, 3), limit,
             row.verdict or "no limit")
            for row, limit in zip(further, limits, strict=True)
        ),
        (),
        "Over all concepts, paired by noise. Kept: two one-sided tests keep the change within the limit; of images "
        "that may not change, none did, or the interval ends below the limit. Disturbed: less, and the interval lies "
        "beyond the limit; of distance more, of skin and similarity either. Risen, fallen: beyond it the other way. "
        "Skin is measured by its colour, so light and drawing count; its tones are compared by a suite with axes."
        + (skin_note if skin else ""),
    )  # fmt: skip
    return [concepts, disturbed, *_plane_table(scores, labels)]


def _verdict_words(changes: Sequence[Row]) -> str:
    """State what the verdicts mean: by parity, and of concepts with another declared target without praise or blame."""
    verdicts = {row.verdict for row in changes}
    by_parity = (
        "Better: moved away from the side that it was shown to lean to. Overshot: shown to lean to the other side now. "
        "Harmed: shown to lean further."
    )
    otherwise = (
        "Leans less, leans to the other side, leans further: the same, of concepts whose declared target is not "
        "parity; whether they have its shares, an audit of both with that target as --reference says."
    )
    if not verdicts & set(WITHOUT_PARITY.values()):
        return by_parity
    return f"{by_parity} {otherwise}" if verdicts & WITHOUT_PARITY.keys() else otherwise


def _plane_table(scores: Scores, labels: tuple[str, str]) -> list[DifferenceTable]:
    """Return, for each concept, its place on the plane of xMCAS before and after; nothing without a third group."""
    rows = {
        (name, row.setting, row.concept): row
        for name in ("xmcas_similarity", "xmcas_distance")
        for row in scores.select("mitigation", name)
    }
    changes = [row for (name, setting, _), row in rows.items() if (name, setting) == ("xmcas_distance", "change")]
    digits = wording.digits_for([row.value for row in changes])

    def cells(name: str, concept: str) -> tuple[str, ...]:
        before, after, change = (rows[name, setting, concept] for setting in ("before", "after", "change"))
        return (
            *(wording.number(row.value, digits) for row in (before, after)),
            wording.signed(change.value, digits), wording.interval(change.low, change.high, digits),
        )  # fmt: skip

    table = [
        (row.concept, *cells("xmcas_similarity", row.concept), *cells("xmcas_distance", row.concept),
         wording.bare_probability(row.q), row.verdict)
        for row in sorted(changes, key=lambda row: -abs(row.value))
    ]  # fmt: skip
    return [DifferenceTable(
        f"xMCAS: {labels[1]} as a mitigation of {labels[0]}",
        ("concept", "similarity before", "after", "change", "95 %", "distance before", "after", "change", "95 %", "q",
         "verdict"),
        tuple(table), (),
        "Similarity is to the third group, distance from (1/3, 0), the paper's unbiased point; by the groups of "
        f"{labels[0]}. {_place_words(changes)} No change: kept within the suite's margin.",
    )] if table else []  # fmt: skip


def _place_words(changes: Sequence[Row]) -> str:
    """State what the verdicts on a place mean, as :func:`_verdict_words` does."""
    by_parity = "Better: nearer to it. Harmed: further."
    verdicts = {row.verdict for row in changes}
    if not verdicts & set(WITHOUT_PARITY_PLACES.values()):
        return by_parity
    otherwise = "Nearer, further: of concepts whose declared target is not parity."
    return f"{by_parity} {otherwise}" if verdicts & WITHOUT_PARITY_PLACES.keys() else otherwise


def trace_tables(comparison: Comparison, labels: tuple[str, str]) -> list[DifferenceTable]:
    """Tabulate, for two traced runs, by how many steps later each concept leans, and from which step on they differ.

    Nothing of others.
    """
    scores = Scores.from_frame(comparison.scores)
    onsets, halves, partings = (scores.by_concept("trace", component) for component in ("onset", "half_way", "parting"))
    if not onsets:
        return []
    suite = comparison.first.suite
    assert isinstance(suite, LeaningSuite)

    def parted(row: Row | None) -> str:
        if row is None or not isfinite(row.value):
            return "not shown"
        return f"by step {row.value:g}, more to {suite.label_of(row.group)}"

    rows = [
        (
            name,
            wording.estimate(onset, 0),
            wording.estimate(halves.get(name), 0),
            parted(partings.get(name)),
            onset.reason,
        )
        for name, onset in onsets.items()
    ]
    later = sum(row.defined and row.low > 0 for row in onsets.values())
    sooner = sum(row.defined and row.high < 0 for row in onsets.values())
    return [
        DifferenceTable(
            f"On the way to the images: {labels[1]} against {labels[0]}",
            ("concept", "sets in later by", "half way later by", "they differ", "note"),
            tuple(rows),
            (
                f"later: {later}",
                f"sooner: {sooner}",
                f"shown to differ: {sum(row.defined for row in partings.values())}",
            ),
            f"In steps of denoising; less than 0 is sooner in {labels[1]}. Intervals hold what the ends of both runs' "
            "own allow. They differ from the step on from which all intervals of the difference leave out 0; the "
            "differences themselves, step by step, are rows of metric trace.",
        )
    ]
