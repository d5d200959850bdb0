"""Read a finished run for its report, and state what its pictures lack: those missing, repeated or drawn together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final

from clinometer._messages import OTHERWISE, first_and_more
from clinometer.errors import RunCorruptError, RunNotFoundError
from clinometer.models import reference
from clinometer.ratings import mixed_raters
from clinometer.report import wording
from clinometer.report.page import Page
from clinometer.report.view import ReportInput, Row, Scores
from clinometer.runs import Run
from clinometer.runs.record import is_checked, registration_in_words
from clinometer.runs.verification import REPORT, missing_files, outdated
from clinometer.studies import study_of
from clinometer.suites import Suite

NAMED: Final = 3
"""Concepts, or pictures, that are named before the others are counted."""

_CAUSES: Final = {
    "one picture a prompt": "every prompt with repeats gave one picture only, as with a fixed seed",
    "in an order that is not of chance": "they do not come in random order, so something repeats them, such as a cache",
    "": "their order does not show whether that is chance, as with a model that makes few different pictures, or "
    "something else, such as a cache",
}


def pictures_in_words(run: Run, scores: Scores | None = None) -> list[str]:
    """State what has no picture, then what is another picture again; nothing where neither is the case."""
    scores = scores or _scores(run)
    return [
        *_without_pictures(run),
        *_reservations(run.suite, scores),
        *repeats_in_words(run, scores),
        *batches_in_words(scores),
    ]


def _scores(run: Run) -> Scores:
    return Scores.from_frame(run.scores) if run.is_scored else Scores(())


def _without_pictures(run: Run) -> Iterator[str]:
    """Yield what has no picture: concepts first, then concepts of a group, then prompts of a group."""
    suite, columns = run.suite, ["concept", "group", "prompt", "status"]
    present = {(concept, group, prompt) for concept, group, prompt, status in run.drawn.each(columns) if status == "ok"}
    owners = {(concept, group) for concept, group, _ in present}
    asked: dict[str, dict[str, bool]] = {}
    for spec in suite.prompt_specs():
        label = suite.label_of(spec.group) if spec.group else ""
        if spec.concept:
            what = f"concepts have no picture{f' of {label}' if label else ''}"
            has = (spec.concept, spec.group) in owners
        else:
            what, has = f"prompts of {label} have no picture", (spec.concept, spec.group, spec.prompt) in present
        by_name = asked.setdefault(what, {})
        name = spec.concept or spec.prompt
        by_name[name] = by_name.get(name, False) or has
    for what, by_name in asked.items():
        lacking = [name for name, has in by_name.items() if not has]
        if lacking:
            verb = what.replace("have no", "has no", 1) if len(lacking) == 1 else what
            names = first_and_more(lacking, NAMED)
            yield f"{len(lacking):,} of {len(by_name):,} {verb}: {names}. Nothing below is about them."


def _depending(suite: Suite, scores: Scores) -> list[str]:
    """Name the concepts with a verdict that would not hold whatever missing pictures show."""
    restates = study_of(suite).restates
    judged = (row for row in scores.having("depends_on") if row.concept and not restates(row))
    return list(dict.fromkeys(row.concept for row in judged if "missing" in row.depends_on.split()))


def _reservations(suite: Suite, scores: Scores) -> Iterator[str]:
    """State which verdicts would not hold whatever missing pictures show."""
    names = _depending(suite, scores)
    if names:
        many = f"{len(names):,} concepts have verdicts" if len(names) > 1 else "One concept has a verdict"
        yield f"{many} that would not hold whatever the missing pictures show: {first_and_more(names, NAMED)}."


def _repeated(suite: Suite, scores: Scores) -> tuple[dict[tuple[str, str], Row], Row | None]:
    """Find the pictures that repeat another: a row for each (concept, group), and one for all, of equal bytes."""
    counts_images = study_of(suite).counts_images
    by_bytes = {(row.concept, row.group): row for row in scores.select("pictures", "repeated", encoder="")}
    over_all = by_bytes.pop(("", ""), None)
    found: dict[tuple[str, str], Row] = dict(by_bytes)
    # what has the same vectors, though not the same bytes, is told by the rows of its concept
    for row in scores.having("n_repeated"):
        known = found.get((row.concept, ""))
        if counts_images(row) and row.concept and row.n_repeated > (known.n_repeated if known else 0):
            found[row.concept, ""] = row
    return found, over_all


def _drawn_of(row: Row) -> int:
    """Count the pictures of a row that says how many repeat others, these included."""
    return row.n_target if row.metric == "pictures" else row.n_target + row.n_repeated


def _repeats_by_concept(suite: Suite, scores: Scores) -> Iterator[tuple[str, str]]:
    """State how many pictures of each concept repeat others; the groups' own, and why, stand under an empty name."""
    found, over_all = _repeated(suite, scores)
    for (concept, group), row in found.items():
        n, drawn = row.n_repeated, _drawn_of(row)
        label = suite.label_of(group) if group else ""
        whose = f"its {drawn:,}" if concept else f"the {drawn:,}"
        of = f"{whose} pictures" + (f" of {label}" if concept and group else f" drawn for {label}" if group else "")
        how = ", byte for byte" if row.metric == "pictures" else " almost exactly, as where a picture is saved again"
        repeats = "repeats another" if n == 1 else "repeat others"
        yield concept, f"{n:,} of {of} {repeats}{how}: {drawn - n:,} count"
    if over_all is not None:
        yield "", f"Where pictures repeat others, {_CAUSES[over_all.flag]}"


def repeats_in_words(run: Run, scores: Scores | None = None) -> Iterator[str]:
    """State which pictures of a run repeat another, by its scores; nothing where none does."""
    scores = scores or _scores(run)
    copies = scores.select("pictures", "copies", encoder="")
    found, over_all = _repeated(run.suite, scores)
    if not found:
        return
    repeated = sorted(found.items(), key=lambda item: -item[1].n_repeated)
    words = []
    for (concept, group), row in repeated:
        name = ", ".join(filter(None, (concept, run.suite.label_of(group) if group else "")))
        words.append(f"{name} ({_drawn_of(row) - row.n_repeated} different of {_drawn_of(row)})")
    again = sum(row.n_repeated for row in found.values())
    cause = f" Byte for byte, {_CAUSES[over_all.flag]}." if over_all is not None else ""
    identical = ""
    if over_all is not None:  # some of them by their ids
        files, by_first = dict(run.plan.rows("id", "file")), dict[str, list[str]]()
        for other, first in run.drawn.repeats().items():
            by_first.setdefault(first, [files[first] or first]).append(files[other] or other)
        more = [wording.ELLIPSIS]
        shown = [" = ".join(names[:NAMED] + (more if len(names) > NAMED else [])) for names in by_first.values()]
        identical = f" Identical: {first_and_more(shown, NAMED)}."
    if copies:  # by their vectors: they were saved again
        shown = [name for row in copies for name in row.setting.split(", ")]
        least = max(row.value for row in copies)
        identical += (
            f" Nearly identical, their vectors closer than {wording.number(least)}, as where a picture is saved again: "
            f"{first_and_more(shown, NAMED)}."
        )
    what = "file" if run.record["origin"] == "imported" else "picture"
    counted = wording.count(again, f"duplicate {what}", f"duplicate {what}s")
    yield f"{counted}, counted once: {first_and_more(words, NAMED)}.{cause}{identical}"


def batches_in_words(scores: Scores) -> Iterator[str]:
    """State which pictures count as one draw because they came together, and what the order of the others tells."""
    for row in scores.select("pictures", "batches", encoder=""):
        if row.flag == "batches are known":
            yield (
                f"{wording.count(row.n_target, 'picture', 'pictures')} came in "
                f"{wording.count(row.n_batches, 'batch', 'batches')}, which count as one draw each (two pictures of a "
                f"batch correlate by {wording.number(row.value)}). A verdict needs ten batches."
            )
        elif row.flag == "neighbours are alike":
            yield (
                f"Pictures that come one after the other are more alike than others ({wording.probability(row.p)}), as "
                f"in {row.setting}: such runs count as one draw each, {row.n_batches:,} of {row.n_target:,} pictures, "
                "and a verdict needs ten. If they are independent, or not in the order of drawing, say so in a column "
                "batch."
            )
        elif row.flag == "sorted by what is shown":
            yield (
                "Pictures are listed by what they show, so their order does not tell how they were drawn; each counts "
                "as a separate draw. A column batch would say which came together."
            )


def notices_of(run: Run, scores: Scores, damage: list[str]) -> dict[str, Any]:
    """Gather what is said of the whole run, and by concept; nothing of a run with unreadable parts, which says so."""
    try:
        notices = [*_without_pictures(run), *batches_in_words(scores)]
        in_short = [*_reservations(run.suite, scores), *repeats_in_words(run, scores)]
    except (RunCorruptError, RunNotFoundError) as error:
        if not damage:  # a part that is gone or damaged is named there
            damage.append(run.directory.without_place(error))
        return {}
    by_concept: dict[str, list[str]] = {}
    for name in _depending(run.suite, scores):
        by_concept.setdefault(name, []).append("its verdict would not hold whatever the missing pictures show")
    for concept, said in _repeats_by_concept(run.suite, scores):
        by_concept.setdefault(concept, []).append(said)
    return {"notices": notices, "concept_notices": by_concept, "notices_in_short": in_short}


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
