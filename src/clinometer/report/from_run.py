"""From a run directory to what the report is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from clinometer.errors import RunCorruptError, RunNotFoundError
from clinometer.report.inputs import Curve, ReportInput
from clinometer.report.pictures import pictures_in_words
from clinometer.runs import Run
from clinometer.runs.fingerprint import REPORT, outdated
from clinometer.runs.planted import planted_of, readings_of
from clinometer.runs.ratings import pooled
from clinometer.runs.record import is_checked
from clinometer.runs.verification import missing_files
from clinometer.suites import Suite


def report_input(run: Run) -> ReportInput:
    """Read a run for its report."""
    record = run.record
    damage = missing_files(run, besides=(REPORT,))  # which is about to be written
    damage += filter(None, [outdated(run), pooled(run)])
    samples = run.samples_that_are_whole(damage)
    return ReportInput(
        title=f"{run.model_card['name']} × {run.suite.title}",
        suite=run.suite,
        model_card=run.model_card,
        encoder_cards=run.encoder_cards,
        settings=_settings(record, run.suite),
        scores=run.scores,
        samples=samples,
        image=_image_reader(run, damage),
        planted=planted_of(run),
        readings=readings_of(run),
        curve=_curve(run),
        curves=run.curves,
        stopped_early=record.get("until") is not None,
        departures=(record.get("protocol") or {}).get("departures"),
        unchecked=run.unchecked,
        notices=_notices(run, damage),
        damage=damage,
    )


def _notices(run: Run, damage: list[str]) -> list[str]:
    """What is said before anything else; nothing of a run whose parts cannot all be read, which says so."""
    try:
        return pictures_in_words(run)
    except (RunCorruptError, RunNotFoundError) as error:
        if not damage:  # a part that is gone or damaged is named there
            damage.append(run.directory.without_place(error))
        return []


def _settings(record: Mapping[str, Any], suite: Suite) -> dict[str, Any]:
    return {
        "seed": record["seed"],
        "created": record["created"],
        "images": _images_in_words(record, suite),
        "origin": record["origin"],
        "suite fingerprint": record["suite_fingerprint"],
        **_changes(record),
        **record["model"]["settings"],
        "machine": " ".join(record["machine"].values()),
        "versions": record["versions"],
    }


def _changes(record: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the suite that were changed after the images were drawn, each with all it has been."""
    lines_by_option: dict[str, list[str]] = {}
    for change in record.get("suite_options") or []:
        line = f"{_value(change['old'])} \N{RIGHTWARDS ARROW} {_value(change['new'])} on {change['since'][:10]}"
        lines_by_option.setdefault(f"{change['option']}, changed after drawing", []).append(line)
    changes: dict[str, Any] = {name: ", then ".join(lines) for name, lines in lines_by_option.items()}
    return changes if is_checked(record) else changes | {"checksums": "none: begun by an earlier version, or taken out"}


def _value(setting: Any) -> str:
    return "none" if setting is None else str(setting)


def _images_in_words(record: Mapping[str, Any], suite: Suite) -> str:
    """How many images, or by what rule."""
    until, words = record.get("until"), suite.images_in_words()
    if until is None:
        return words
    if until.get("of"):
        return f"until the differences from a sweep's baseline were told, at most {words}"
    if until["precision"] is None:
        return f"until decided, at most {words}"
    return f"until known to within \N{PLUS-MINUS SIGN}{until['precision']:g}, at most {words}"


def _curve(run: Run) -> Curve:
    rows = run.curves[run.curves.curve == "delta_alpha"]
    scores = run.scores
    of_alpha = scores[(scores.metric == "internal_bias") & (scores.component == "bias_amplification")]
    if len(of_alpha) and "flag" in of_alpha and (of_alpha.flag[of_alpha.encoder == "mean"] == "unstable").all():
        return Curve(reason="no curve: \N{GREEK SMALL LETTER ALPHA} is unstable for every concept")
    if not len(rows):
        return Curve(reason="too few points for a curve")
    rows = rows.sort_values("x")
    x, y, low, high = (rows[name].tolist() for name in ("x", "y", "low", "high"))
    method = "LOESS through every concept with both numbers, unstable ones included"
    return Curve(x, y, low, high, method=method)


def _image_reader(run: Run, damage: list[str]) -> Callable[[str], bytes | None]:
    """Images by id. The page asks prompt by prompt, so the part read last usually has the next one too.

    Those of a part that is missing or damaged are None, and what is damaged is added to ``damage``.
    """

    @lru_cache(maxsize=2)
    def part_images(part: int) -> dict[str, bytes | None]:
        try:
            return {row["id"]: (row["image"] or {}).get("bytes") for row in run.read_images(part)}
        except (RunCorruptError, RunNotFoundError) as error:
            message = run.directory.without_place(error)
            if message not in damage:
                damage.append(message)
            return {}

    return lambda identifier: part_images(run.sample(identifier).part).get(identifier)
