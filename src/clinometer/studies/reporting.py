"""Read a finished run for its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from clinometer._messages import OTHERWISE
from clinometer.errors import RunCorruptError, RunNotFoundError
from clinometer.models import reference
from clinometer.ratings import mixed_raters
from clinometer.report.page import Page
from clinometer.report.rows import Scores
from clinometer.report.view import ReportInput
from clinometer.runs import Run
from clinometer.runs.record import is_checked, registration_in_words
from clinometer.runs.verification import REPORT, missing_files, outdated
from clinometer.studies import study_of
from clinometer.studies.notices import notices_of
from clinometer.suites import Suite


def page_and_view(run: Run) -> tuple[Page[Any], Any]:
    """Return how the run's study shows it, and the run as the sections of that page see it."""
    page = study_of(run.suite).page(run.suite)
    return page, page.view.of(report_input(run))


def report_input(run: Run) -> ReportInput:
    """Read a run for its report."""
    record = run.record
    damage = missing_files(run, besides=(REPORT,))  # which is about to be written
    damage += filter(None, [outdated(run), mixed_raters(run)])
    samples, scores = run.drawn.whole(damage), run.scores
    notices = notices_of(run, Scores.from_frame(scores), damage)
    return ReportInput(
        title=f"{run.model_card['name']} × {run.suite.title}",
        suite=run.suite,
        model_card=run.model_card,
        encoder_cards=run.encoder_cards,
        settings=_settings(record, run.suite),
        scores=scores,
        samples=samples,
        image=_image_reader(run, damage),
        voices=[f"{reader} on {question}" for reader, question in _voices(run)],
        said=_answers_reader(run, damage),
        planted=reference.planted_in(run.model_card),
        readings=reference.readings_in(run.model_card, run.encoder_cards),
        curves=run.curves,
        stopped_early=record.get("until") is not None,
        departures=(record.get("protocol") or {}).get("departures"),
        registration=registration_in_words(record),
        unchecked=run.unchecked,
        **notices,
        strips=partial(_strips, run, damage),
        damage=damage,
    )


def _strips(run: Run, damage: list[str]) -> Mapping[str, Mapping[int, bytes]]:
    try:
        return run.traces.strips()
    except (RunCorruptError, RunNotFoundError) as error:
        damage.append(run.directory.without_place(error))
        return {}


def _settings(record: Mapping[str, Any], suite: Suite) -> dict[str, Any]:
    # settings of the suite that were changed after the images were drawn, each with all it has been
    lines_by_option: dict[str, list[str]] = {}
    for change in record.get("suite_options") or []:
        line = f"{_value(change['old'])} \N{RIGHTWARDS ARROW} {_value(change['new'])} on {change['since'][:10]}"
        lines_by_option.setdefault(f"{change['option']}, changed after drawing", []).append(line)
    changes: dict[str, Any] = {name: ", then ".join(lines) for name, lines in lines_by_option.items()}
    return {
        "seed": record["seed"],
        "created": record["created"],
        "images": _images_in_words(record, suite),
        "origin": record["origin"],
        "suite fingerprint": record["suite_fingerprint"],
        **changes,
        **({} if is_checked(record) else {"checksums": "none: begun by an earlier version, or taken out"}),
        **record["model"]["settings"],
        "machine": " ".join(record["machine"].values()),
        "versions": record["versions"],
    }


def _value(setting: Any) -> str:
    return "none" if setting is None else str(setting)


def _images_in_words(record: Mapping[str, Any], suite: Suite) -> str:
    """State how many images, or by what rule."""
    until, words = record.get("until"), suite.images_in_words()
    if until is None:
        return words
    if until.get("of"):
        return f"until the differences from a sweep's baseline were decided, at most {words}"
    if until["precision"] is None:
        return f"until decided, at most {words}"
    return f"until known to within \N{PLUS-MINUS SIGN}{until['precision']:g}, at most {words}"


def _image_reader(run: Run, damage: list[str]) -> Callable[[str], bytes | None]:
    """Return what gives images by id. A page asks prompt by prompt, so the part read last often has the next one too.

    Those of a part that is missing or damaged are None, and what is damaged is added to ``damage``.
    """

    @lru_cache(maxsize=2)
    def part_images(part: int) -> dict[str, bytes | None]:
        try:
            return {row["id"]: (row["image"] or {}).get("bytes") for row in run.drawn.read(part)}
        except (RunCorruptError, RunNotFoundError) as error:
            message = run.directory.without_place(error)
            if message not in damage:
                damage.append(message)
            return {}

    return lambda identifier: part_images(run.sample(identifier).part).get(identifier)


def _voices(run: Run) -> list[tuple[str, str]]:
    """Return each reader with each question that it was asked."""
    return [(reader, question) for reader in run.readers.cards for question in run.readers.questions(reader)]


def _answers_reader(run: Run, damage: list[str]) -> Callable[[str], Sequence[str]]:
    """Look up what readers said of an image by its id, in the order of ``_voices``; damage as of `_image_reader`."""
    voices = _voices(run)

    @lru_cache(maxsize=2)
    def part_answers(part: int) -> dict[tuple[str, str, str], str]:
        found = {}
        for reader, record in run.readers.cards.items():
            try:
                rows = run.answers.of_part(record, part)
            except (RunCorruptError, RunNotFoundError) as error:
                message = run.directory.without_place(error)
                if message not in damage:
                    damage.append(message)
                continue
            for (identifier, question), row in rows.items():
                answer = row["answer"]
                words = OTHERWISE.get(answer) or run.suite.label_of(answer) if answer else "no answer"
                found[identifier, reader, question] = words
        return found

    def said(identifier: str) -> Sequence[str]:
        rows = part_answers(run.sample(identifier).part) if voices else {}
        own = [rows.get((identifier, *voice), "not asked") for voice in voices]
        return own if set(own) != {"not asked"} else ()

    return said
