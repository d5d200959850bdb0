"""Finished images put to a suite: every row of a manifest finds the question it answers, or is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from clinometer._messages import did_you_mean, first_and_more, quoted
from clinometer.errors import ImportManifestError
from clinometer.models.folder import ManifestRow
from clinometer.suites import Question, Suite


def manifest_questions(rows: Sequence[ManifestRow], suite: Suite, source: str) -> Iterator[Question]:
    """What each row answers, in the suite's words.

    A row finds its question by its concept and its group. The images of a group alone are nested in its prompts, and
    the intervals hang on that, so the prompt must be one of them. A concept's may come from any prompt.

    Raises
    ------
    ImportManifestError
        A row names a concept, group or prompt that the suite does not have.
    """
    asked: dict[tuple[str, str], list[Question]] = {}
    for question in suite.questions():
        asked.setdefault((question.concept, question.group), []).append(question)
    for row in rows:
        concept, group = row.concept or "", row.group or ""
        if (concept, group) not in asked:
            raise _unknown_owner(source, row, list(asked), suite)
        yield replace(_question(row, asked[concept, group], suite, source), images=1, file=row.file)


def _question(row: ManifestRow, asked: Sequence[Question], suite: Suite, source: str) -> Question:
    prompts = [question.prompt for question in asked]
    if row.prompt in prompts:
        return asked[prompts.index(str(row.prompt))]
    if asked[0].concept:  # the images of a concept are one pool, whatever the words
        return replace(asked[0], prompt=row.prompt or asked[0].prompt)
    if len(asked) == 1 and not row.prompt:
        return asked[0]
    raise _unknown(source, row, "prompt", row.prompt or "(empty)", prompts, suite)


def _unknown_owner(
    source: str, row: ManifestRow, asked: Sequence[tuple[str, str]], suite: Suite
) -> ImportManifestError:
    """Name the field that the suite does not have: the concept, the group, or the two together."""
    concepts = list(dict.fromkeys(concept for concept, _ in asked if concept))
    groups = list(dict.fromkeys(group for _, group in asked if group))
    if row.concept and row.concept not in concepts:
        return _unknown(source, row, "concept", row.concept, concepts, suite)
    if row.group and row.group not in groups:
        return _unknown(source, row, "group", row.group, groups, suite)
    found = " with ".join(part for part in (row.concept, row.group) if part)
    known = [" with ".join(part for part in pair if part) for pair in asked if not row.concept or row.concept in pair]
    return _unknown(source, row, "concept and group", found, known, suite)


def _unknown(
    source: str, row: ManifestRow, field: str, found: str | None, known: Sequence[str], suite: Suite
) -> ImportManifestError:
    hint = did_you_mean(str(found), known) or f"expected {first_and_more(known, 10)}."
    return ImportManifestError(
        f"{source}, line {row.line}, {field}: {quoted(found)} is not in suite {suite.name}; {hint} "
        "Mend the manifest, or give the --suite it was made for"
    )
