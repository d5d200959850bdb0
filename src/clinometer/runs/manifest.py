"""Finished images matched with a suite: every row of a manifest belongs to one of its prompt specs, or is refused."""

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
    """Yield the prompt spec of each row, with the row's file and one image.

    A row is matched by its concept and its group. The images of a group alone are nested in its prompts, and the
    intervals depend on that, so the prompt must be one of them. A concept's images may come from any prompt. A row that
    has only a prompt is matched by it, and it must be one of the suite's.

    Raises
    ------
    ImportManifestError
        A row names a concept, group or prompt that the suite does not have.
    """
    by_owner: dict[tuple[str, str], list[PromptSpec]] = {}
    for spec in suite.prompt_specs():
        by_owner.setdefault((composed(spec.concept), composed(spec.group)), []).append(spec)
    by_prompt: dict[str, list[PromptSpec]] = {}  # usually one
    if any(row.concept is None and row.group is None for row in rows):
        for spec in suite.every_prompt_spec():
            by_prompt.setdefault(composed(spec.prompt), []).append(spec)
    for row in rows:
        owner = (composed(row.concept or ""), composed(row.group or ""))
        if row.concept is None and row.group is None:
            spec = _spec_of_prompt(row, by_prompt, suite, source)
        elif owner not in by_owner:
            raise _unknown_owner(source, row, list(by_owner), suite)
        else:
            specs = by_owner[owner]
            prompts = [each.prompt for each in specs]
            if (same := composed(row.prompt or "")) in (known := list(map(composed, prompts))):
                spec = specs[known.index(same)]
            elif specs[0].concept:  # the images of a concept are one pool, whatever the words
                spec = replace(specs[0], prompt=row.prompt or specs[0].prompt)
            elif len(specs) == 1 and not row.prompt:
                spec = specs[0]
            else:
                raise _unknown(source, row, "prompt", row.prompt or "(empty)", prompts, suite)
        yield replace(spec, images=1, file=row.file)


def rows_named_by_prompts(folder: Path, suite: Suite) -> list[ManifestRow]:
    """Find the images that FAIRBench saved, which are named after their prompts: 16 digits of the MD5 of each.

    A prompt that is drawn again replaces its earlier image, so each has at most one.
    """
    by_name: dict[str, str] = {}
    for spec in suite.every_prompt_spec():
        name = hashlib.md5(spec.prompt.encode(), usedforsecurity=False).hexdigest()[:16]
        by_name.setdefault(f"{name}.png", spec.prompt)
    return [
        ManifestRow(name, None, None, "target", prompt, line)
        for line, (name, prompt) in enumerate(by_name.items(), start=1)
        if (folder / name).is_file()
    ]


def groups_by_prompt(suite: Suite) -> dict[str, str]:
    """Return the group of each prompt that draws a group's pictures by itself, such as its portraits."""
    return {spec.prompt: spec.group for spec in suite.every_prompt_spec() if spec.group and not spec.concept}


def _spec_of_prompt(row: ManifestRow, by_prompt: dict[str, list[PromptSpec]], suite: Suite, source: str) -> PromptSpec:
    """Return the only prompt spec that has a row's prompt."""
    where = f"{source}, line {row.line}, prompt: {row.prompt!r}"
    specs = by_prompt.get(composed(str(row.prompt)), [])
    if len(specs) == 1:
        return specs[0]
    if specs:
        owners = " and ".join(" with ".join(filter(None, (spec.concept, spec.group))) for spec in specs)
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
