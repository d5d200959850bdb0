"""Finished images put to a suite: every row of a manifest finds its target or its attribute prompt, or is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clinometer.errors import ImportManifestError
from clinometer.models.folder import ManifestRow
from clinometer.runs.plan import Question
from clinometer.suites import Suite


def manifest_questions(rows: Sequence[ManifestRow], suite: Suite, source: str) -> Iterator[Question]:
    """What each row answers, in the suite's words.

    Raises
    ------
    ImportManifestError
        A row names a concept, group or prompt that the suite does not have.
    """
    targets = {target.name: (category, target) for category, target in suite.categorised_targets()}
    for row in rows:
        if row.concept:
            if row.concept not in targets:
                raise _unknown(source, row, "concept", row.concept, list(targets), suite)
            category, target = targets[row.concept]
            yield Question(row.prompt or target.prompt, "target", row.concept, category, file=row.file)
        else:
            if row.group not in suite.groups:
                raise _unknown(source, row, "group", row.group, list(suite.groups), suite)
            yield Question(_attribute_prompt(row, suite, source), "attribute", group=row.group, file=row.file)


def _attribute_prompt(row: ManifestRow, suite: Suite, source: str) -> str:
    """The attribute prompt that a row's images belong to: the nesting of the intervals hangs on it."""
    prompts = [attribute.prompt for attribute in suite.groups[str(row.group)].prompts]
    if row.prompt in prompts:
        return str(row.prompt)
    if not row.prompt and len(prompts) == 1:
        return prompts[0]
    raise _unknown(source, row, "prompt", row.prompt or "(empty)", prompts, suite)


def _unknown(
    source: str, row: ManifestRow, field: str, found: str | None, known: list[str], suite: Suite
) -> ImportManifestError:
    return ImportManifestError(
        f"{source}, line {row.line}, {field}: {found!r} is not in suite {suite.name}; expected one of "
        f"{', '.join(known)}. Mend the manifest, or give the --suite it was made for"
    )
