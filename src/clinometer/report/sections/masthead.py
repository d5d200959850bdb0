"""Who was asked what, and the finding in one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from clinometer.report import wording
from clinometer.report.rows import Row
from clinometer.report.sections.protocol import protocol_in_short
from clinometer.report.verdict_words import withheld
from clinometer.report.view import View


def nothing_told(counts: Mapping[str, int]) -> str:
    """The beginning of a sentence where all that was measured is of one kind that tells nothing; else empty."""
    verdict_groups = {verdict_group for verdict_group, n in counts.items() if n and verdict_group != "unmeasured"}
    if verdict_groups == {"few"}:
        return "There are too few images to tell"
    return "The images do not tell" if verdict_groups == {"undecided"} else ""


def rest_in_words(counts: Mapping[str, int], one: str = "") -> str:
    """The verdicts that name no side, counted: ``three are shown balanced and for ten the images do not tell``.

    What the images cannot tell is never worded as no leaning. ``one`` : what is counted, where it is not said before.
    """
    wordings = (
        ("balanced", "{} is shown balanced", "{} are shown balanced"),
        ("undecided", "for {} the images do not tell", "for {} the images do not tell"),
        ("few", "{} has too few images to tell", "{} have too few images to tell"),
    )
    clauses = [
        (singular if counts[verdict_group] == 1 else plural).format(
            wording.count(counts[verdict_group], one, words=True) if one else wording.numeral(counts[verdict_group])
        )
        for verdict_group, singular, plural in wordings
        if counts.get(verdict_group)
    ]
    return wording.listed(clauses)


def nothing_judged(unit: str, model: str, rows: Iterable[Row]) -> str:
    """Say that there is no score, or that there are some and none with what a verdict needs."""
    rows = tuple(rows)
    why = withheld(rows)
    if why:
        return f"Nothing could be judged for {model}: {why}."
    if len(reasons := {row.reason for row in rows if row.defined}) == 1 and reasons != {""}:
        return f"Nothing could be judged for {model}: {reasons.pop()}."
    if any(row.defined for row in rows):
        return f"Nothing could be judged: no {unit} of the suite has a score with an interval and a q for {model}."
    return f"Nothing could be measured: no {unit} of the suite has a score for {model}."


def facts(view: View) -> list[tuple[str, str]]:
    """List the facts under the title: a name and a value each."""
    report = view.report
    settings = report.settings
    pairs = [
        ("Model", str(report.model_card.get("name", "unnamed"))),
        ("Suite", report.suite.title),
        ("Protocol", protocol_in_short(report.departures)),
        ("Images", image_counts(view)),
        (
            "Encoder" if len(report.encoder_cards) == 1 else "Encoders",
            ", ".join(report.encoder_cards) or "none",
        ),
        ("Seed", str(settings.get("seed", ""))),
        ("Date", str(settings.get("created", settings.get("date", "")))[:10]),
    ]
    return [(name, value) for name, value in pairs if value]


def image_counts(view: View) -> str:
    """How many images were drawn or imported, and what became of the others."""
    samples = view.report.samples
    statuses = Counter(samples["status"]) if "status" in samples else Counter()
    if not statuses:
        return "none"
    others = [f"{statuses[status]:,} {status}" for status in ("refused", "failed", "blank") if statuses[status]]
    came, lost = (
        ("imported", "failed") if view.report.settings.get("origin") == "imported" else ("drawn", "refused or failed")
    )
    return ", ".join([f"{statuses['ok']:,} {came}", *(others or [f"none {lost}"])])
