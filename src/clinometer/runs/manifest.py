"""Finished images put to a suite: every row of a manifest finds the question it answers, or is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from clinometer._messages import composed, did_you_mean, first_and_more, quoted
from clinometer.errors import ImportManifestError
from clinometer.models.files import ManifestRow
from clinometer.suites import PromptSpec, Suite


def manifest_prompt_specs(rows: Sequence[ManifestRow], suite: Suite, source: str) -> Iterator[PromptSpec]:
    """Yield what each row answers, in the suite's words.

    A row finds its question by its concept and its group. The images of a group alone are nested in its prompts, and
    the intervals hang on that, so the prompt must be one of them. A concept's may come from any prompt. A row with a
    prompt alone finds it by that, which must be one of the suite's.

    Raises
    ------
    ImportManifestError
        A row names a concept, group or prompt that the suite does not have.
    """
    by_owner: dict[tuple[str, str], list[PromptSpec]] = {}
    for spec in suite.prompt_specs():
        by_owner.setdefault((composed(spec.concept), composed(spec.group)), []).append(spec)
    by_prompt: dict[str, list[PromptSpec]] = {}  # every question that a prompt may be meant for; as a rule one
    if any(row.concept is None and row.group is None for row in rows):
        for spec in suite.every_prompt_spec():
            by_prompt.setdefault(composed(spec.prompt), []).append(spec)
    for row in rows:
        owner = (composed(row.concept or ""), composed(row.group or ""))
        if row.concept is None and row.group is None:
            question = _asked_by_prompt(row, by_prompt, suite, source)
        elif owner not in by_owner:
            raise _unknown_owner(source, row, list(by_owner), suite)
        else:
            questions = by_owner[owner]
            prompts = [spec.prompt for spec in questions]
            if (same := composed(row.prompt or "")) in (known := list(map(composed, prompts))):
                question = questions[known.index(same)]
            elif questions[0].concept:  # the images of a concept are one pool, whatever the words
                question = replace(questions[0], prompt=row.prompt or questions[0].prompt)
            elif len(questions) == 1 and not row.prompt:
                question = questions[0]
            else:
                raise _unknown(source, row, "prompt", row.prompt or "(empty)", prompts, suite)
        yield replace(question, images=1, file=row.file)


def rows_named_by_prompts(folder: Path, suite: Suite) -> list[ManifestRow]:
    """Find the images that FAIRBench saved, which are named by their prompts: 16 digits of the MD5 of each.

    A prompt that is asked again is saved over the last one, so there is one image of each at most.
    """
    by_name: dict[str, str] = {}
    for question in suite.every_prompt_spec():
        name = hashlib.md5(question.prompt.encode(), usedforsecurity=False).hexdigest()[:16]
        by_name.setdefault(f"{name}.png", question.prompt)
    return [
        ManifestRow(name, None, None, "target", prompt, line)
        for line, (name, prompt) in enumerate(by_name.items(), start=1)
        if (folder / name).is_file()
    ]


def groups_by_prompt(suite: Suite) -> dict[str, str]:
    """Return the group of each prompt that draws a group's pictures by itself, such as its portraits."""
    return {q.prompt: q.group for q in suite.every_prompt_spec() if q.group and not q.concept}


def _asked_by_prompt(row: ManifestRow, by_prompt: dict[str, list[PromptSpec]], suite: Suite, source: str) -> PromptSpec:
    """Return the one question whose prompt a row has."""
    where = f"{source}, line {row.line}, prompt: {row.prompt!r}"
    questions = by_prompt.get(composed(str(row.prompt)), [])
    if len(questions) == 1:
        return questions[0]
    if questions:
        owners = " and ".join(" with ".join(filter(None, (q.concept, q.group))) for q in questions)
        raise ImportManifestError.missing(
            f"{where} is asked in suite {suite.name} for {owners}; add the column concept or group, which says which"
        )
    hint = did_you_mean(str(row.prompt), by_prompt) or "it asks others."
    raise ImportManifestError.unknown_name(
        f"{where} is no prompt of suite {suite.name}; {hint} Fix it, add the column concept or group, or give the "
        "--suite it was made for"
    )


def _unknown_owner(
    source: str, row: ManifestRow, owners: Sequence[tuple[str, str]], suite: Suite
) -> ImportManifestError:
    """Name the field that the suite does not have: the concept, the group, or the two together."""
    concepts = list(dict.fromkeys(concept for concept, _ in owners if concept))
    groups = list(dict.fromkeys(group for _, group in owners if group))
    if row.concept and composed(row.concept) not in concepts:
        return _unknown(source, row, "concept", row.concept, concepts, suite)
    if row.group and composed(row.group) not in groups:
        return _unknown(source, row, "group", row.group, groups, suite)
    owner = " with ".join(part for part in (row.concept, row.group) if part)
    terms = [" with ".join(part for part in pair if part) for pair in owners if not row.concept or row.concept in pair]
    return _unknown(source, row, "concept and group", owner, terms, suite)


def _unknown(
    source: str, row: ManifestRow, field: str, term: str | None, terms: Sequence[str], suite: Suite
) -> ImportManifestError:
    hint = did_you_mean(str(term), terms) or f"expected {first_and_more(terms, 10)}."
    return ImportManifestError.unknown_name(
        f"{source}, line {row.line}, {field}: {quoted(term)} is not in suite {suite.name}; {hint} "
        "Fix the manifest, or give the --suite it was made for"
    )
