"""Pictures that are not there, or twice, in a few sentences: the first thing that is said of a run that has such."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from clinometer._messages import first_and_more
from clinometer.report import wording
from clinometer.report.rows import Row, Scores
from clinometer.runs.store import Run
from clinometer.suites import Suite

NAMED: Final = 3
"""Concepts, or pictures, that are named before the others are counted."""

_CAUSES: Final = {
    "one picture a prompt": "every prompt that repeats one gave that one alone, as with a fixed seed",
    "in an order that is not of chance": "they do not come in an order of chance, so something gives them again, such "
    "as a cache",
    "": "their order does not tell chance, as of a model that knows few pictures, from a cache",
}


def pictures_in_words(run: Run) -> list[str]:
    """Say what has no picture, then what is another picture again; nothing where neither is the case."""
    present = set(
        (concept, group, prompt)
        for concept, group, prompt, status in run.each_sample(["concept", "group", "prompt", "status"])
        if status == "ok"
    )
    return [*_without_pictures(run.suite, present), *_assumptions(run), *_between(run), *_repeats(run)]


def _without_pictures(suite: Suite, present: set[tuple[str, str, str]]) -> Iterator[str]:
    """Concepts first, then concepts of a group, then prompts of a group."""
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


def _assumptions(run: Run) -> Iterator[str]:
    """Say which verdicts would not hold whatever the pictures show that are not there."""
    scores = Scores.from_frame(run.scores) if run.is_scored else Scores(())
    judged = [
        row
        for row in scores
        if row.concept and "missing" in row.depends_on.split() and (row.metric, row.component) != ("mcas", "mcas")
        and row.metric != "profile"
    ]  # fmt: skip
    names = list(dict.fromkeys(row.concept for row in judged))
    if names:
        many = f"{len(names):,} concepts have verdicts" if len(names) > 1 else "One concept has a verdict"
        yield f"{many} that would not hold whatever the missing pictures show: {first_and_more(names, NAMED)}."


def _between(run: Run) -> Iterator[str]:
    """Say where more pictures are like neither group than chance explains."""
    scores = Scores.from_frame(run.scores) if run.is_scored else Scores(())
    rows = [row for row in scores.select("share", "between") if row.flag == "some lie between"]
    if rows:
        words = [f"{row.concept} ({round(row.value * row.n_target):,} of {row.n_target:,})" for row in rows]
        yield (
            f"Some pictures lie between the groups, by the spread of the groups' own pictures, and are read as one of "
            f"them all the same: {first_and_more(words, NAMED)}."
        )


def _repeats(run: Run) -> Iterator[str]:
    scores = Scores.from_frame(run.scores) if run.is_scored else Scores(())
    by_bytes = {(row.concept, row.group): row for row in scores.select("pictures", "repeated", encoder="")}
    over_all = by_bytes.pop(("", ""), None)
    found: dict[tuple[str, str], Row] = dict(by_bytes)
    for row in scores:  # what has the same vectors, though not the same bytes, is told by the rows of its concept
        known = found.get((row.concept, ""))
        if row.metric in _OF_IMAGES and row.concept and row.n_repeated > (known.n_repeated if known else 0):
            found[row.concept, ""] = row
    if not found:
        return
    repeated = sorted(found.items(), key=lambda item: -item[1].n_repeated)
    words = [f"{_name(run.suite, owner)} ({_of(row)})" for owner, row in repeated]
    count = wording.count(sum(row.n_repeated for row in found.values()), "picture is", "pictures are")
    cause = f" As bytes, {_CAUSES[over_all.flag]}." if over_all is not None else ""
    pairs = _pairs(run.repeats()) if over_all is not None else ""
    yield (f"{count} another one again, and each counts once: {first_and_more(words, NAMED)}.{cause}{pairs}")


_OF_IMAGES: Final = ("mcas", "intersections", "association")


def _of(row: Row) -> str:
    drawn = row.n_target if row.metric == "pictures" else row.n_target + row.n_repeated
    return f"{drawn - row.n_repeated} different of {drawn}"


def _name(suite: Suite, owner: tuple[str, str]) -> str:
    concept, group = owner
    return ", ".join(part for part in (concept, suite.label_of(group) if group else "") if part)


def _pairs(repeats: Mapping[str, str]) -> str:
    """Name some of them, by their ids."""
    by_first: dict[str, list[str]] = {}
    for again, first in repeats.items():
        by_first.setdefault(first, [first]).append(again)
    more = [wording.ELLIPSIS]
    shown = [" = ".join(ids[:NAMED] + (more if len(ids) > NAMED else [])) for ids in by_first.values()]
    return f" Identical: {first_and_more(shown, NAMED)}."
