"""The part of a model card that is about bias: runs in Markdown, and in the metadata that the Hub reads.

The Hub's format (``model-index``) has no place for an interval or a verdict but the arguments of a metric, so they
stand there as data; and in its name, as that is shown. Numbers are those of the scores, without rounding. What could
not be measured or judged, also for want of images, is left out: the format knows no reason.

Into a card that somebody else writes, our section and our results are put; all else stays as it is. The metadata's text
is not written again, as that would drop its comments and its layout: one key of it is replaced. See decision 49.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import yaml

from clinometer.errors import InvalidInputError, ModelError
from clinometer.report.model_card.content import CardInput, listed_first, one_line, section_of
from clinometer.report.rows import Row
from clinometer.report.verdicts import Verdicts
from clinometer.report.wording import not_measured, too_few

if TYPE_CHECKING:
    import huggingface_hub


BEGIN: Final = "<!-- clinometer card: begin -->"
END: Final = "<!-- clinometer card: end -->"
KEY: Final = "model-index"


def merged(
    card: str, section: str, results: Sequence[huggingface_hub.EvalResult], *, model_name: str, source: str
) -> str:
    """Return a card with our section and our results, in place of those that it has.

    Parameters
    ----------
    card : the text of a card; empty for a new one.
    section : our section, without markers.
    results : our results.
    model_name : the model's name where the card gives it none.
    source : what messages call the card.

    Raises
    ------
    InvalidInputError
        It cannot be told where our section is, or the metadata cannot be changed without losing something of it.
    """
    newline = "\r\n" if "\r\n" in card else "\n"
    found = hub().repocard.REGEX_YAML_BLOCK.search(card)
    metadata, body = (found[2], card[found.end() :]) if found else ("", card)
    changed = _with_results(metadata, results, model_name, newline, source)
    opening, closing = (found[1], found[3]) if found else (f"---{newline}", f"{newline}---{newline}")
    head = f"{opening}{changed}{closing}" if changed or found else ""
    return head + _with_section(body, f"{BEGIN}\n{section}\n\n{END}", newline, source)


def _with_section(body: str, section: str, newline: str, source: str) -> str:
    begins, ends = body.count(BEGIN), body.count(END)
    section = section.replace("\n", newline)
    if begins == ends == 0:
        plain = body.replace("\r\n", "\n")
        gap = newline * max(0, 2 - (len(plain) - len(plain.rstrip("\n")))) if body.strip() else newline
        return f"{body}{gap}{section}{newline}"
    before, _, rest = body.partition(BEGIN)
    if begins != 1 or ends != 1 or END not in rest:
        raise InvalidInputError.malformed(
            f"{source}: found {begins} of {BEGIN} and {ends} of {END}, expected one of each, in this order; fix that, "
            "or remove them all to have the section at the end"
        )
    return f"{before}{section}{rest.partition(END)[2]}"


def _with_results(
    metadata: str, results: Sequence[huggingface_hub.EvalResult], model_name: str, newline: str, source: str
) -> str:
    """Return the metadata with another ``model-index``, checked to be the same in all else."""
    values = _read(metadata, source)
    index = _index(values.get(KEY), results, model_name, source)
    if index == (values.get(KEY) or []):
        return metadata
    block = hub().utils.yaml_dump({KEY: index}, sort_keys=False).strip() if index else ""
    changed = _splice(metadata, block.replace("\n", newline), newline, source)
    wanted = {key: value for key, value in values.items() if key != KEY} | ({KEY: index} if index else {})
    found = _read(changed, source)
    # the order of keys tells nothing, and NaN is the same as NaN
    if found.keys() != wanted.keys() or any(repr(found[key]) != repr(wanted[key]) for key in found):
        raise InvalidInputError.unsupported(
            f"{source}: its metadata refers to something within {KEY}, which would be lost; write it out, or "
            "give no --out and paste what is printed"
        )
    return changed


def _read(metadata: str, source: str) -> dict[str, Any]:
    """Return the metadata as a mapping."""
    try:
        values = yaml.safe_load(metadata)
    except Exception as error:  # of any kind: PyYAML lets through what its constructors raise
        message = " ".join(str(error).split())
        raise InvalidInputError.unreadable(f"{source}: its metadata cannot be read: {message}; fix it") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise InvalidInputError.wrong_type(
            f"{source}: its metadata is a {type(values).__name__}, expected a mapping; fix it"
        )
    return values


def _index(
    held: Any, results: Sequence[huggingface_hub.EvalResult], model_name: str, source: str
) -> list[dict[str, Any]]:
    """Return the entries of ``model-index``, with our results in the first in place of older ones."""
    entries = [] if held is None else held
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and isinstance(entry.get("results", []), list) for entry in entries
    ):
        raise InvalidInputError.wrong_type(f"{source}: its {KEY} is no list of models with their results; fix it")
    kept = [
        {**entry, "results": [result for result in entry["results"] if not is_ours(result)]}
        if any(map(is_ours, entry.get("results", [])))
        else entry
        for entry in entries
    ]
    if results:
        name = str(kept[0].get("name", model_name)) if kept else model_name
        (ours,) = hub().repocard_data.eval_results_to_model_index(name, list(results))
        kept = [
            {**kept[0], "results": [*kept[0].get("results", []), *ours["results"]]} if kept else ours,
            *kept[1:],
        ]
    return [entry for entry in kept if entry.get("results") or entry in entries]


def _splice(metadata: str, block: str, newline: str, source: str) -> str:
    """Return the text with the block in place of the key, or after all others."""
    root = yaml.compose(metadata, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):  # nothing but comments
        return f"{metadata}{newline}{block}" if metadata.strip() else block
    if root.flow_style and root.value:
        raise InvalidInputError.unsupported(f"{source}: its metadata stands in braces; write a line for each key")
    if root.flow_style:  # {}
        return f"{metadata[: root.start_mark.index]}{block}{metadata[root.end_mark.index :]}"
    found = [(key, value) for key, value in root.value if key.value == KEY]
    if not found:
        return f"{metadata}{newline}{block}"
    if len(found) > 1:
        raise InvalidInputError.duplicate(f"{source}: its metadata has {KEY} {len(found)} times; leave one")
    # the key to the end of its value; what follows, comments too, is another's
    key, value = found[0]
    start, last = key.start_mark.index, max(value.end_mark.index, key.end_mark.index + 1)
    tokens = [token for token in yaml.scan(metadata) if start <= token.start_mark.index < token.end_mark.index <= last]
    gaps = (metadata[one.end_mark.index : other.start_mark.index] for one, other in pairwise(tokens))
    if any("#" in gap for gap in gaps):
        raise InvalidInputError.unsupported(
            f"{source}: its metadata has a comment within {KEY}, which would be lost; move it above that key"
        )
    end = start + len(metadata[start : tokens[-1].end_mark.index].rstrip("\r\n"))
    return f"{metadata[:start]}{block}{metadata[end:]}" if block else metadata[:start] + metadata[end:].lstrip("\r\n")


OURS: Final = "clinometer/"
"""How the data set of every result of ours begins."""

FINGERPRINT: Final = "suite_fingerprint"
"""The argument of the data set that every result of ours has."""


def hub() -> Any:
    """Return the package huggingface_hub, which the extra ``models`` brings.

    Raises
    ------
    ModelError
        It is not installed.
    """
    try:
        import huggingface_hub.repocard  # the package loads this only when it is named
    except ModuleNotFoundError as error:
        if error.name != "huggingface_hub":
            raise
        raise ModelError.not_installed(
            "a model card needs the package huggingface_hub, which is not installed; install it with "
            "`pip install huggingface_hub`, without PyTorch, or with it, `pip install 'clinometer[models]'`"
        ) from error
    return huggingface_hub


def eval_results(runs: Sequence[CardInput], *, rows: int) -> list[huggingface_hub.EvalResult]:
    """Return the verdicts that the cards list, as evaluation results: a data set a run, a metric a verdict.

    Raises
    ------
    ModelError
        huggingface_hub is not installed.
    """
    seen = Counter[tuple[str, str]]()
    results = []
    for run in runs:
        common = _common(run)
        data = common["dataset_type"], common["dataset_config"]
        seen[data] += 1
        if seen[data] > 1:  # the Hub's classes take results for one data set's where these two agree
            common["dataset_config"] += f"-{seen[data]}"
        lead = "unchecked: " if run.report.unchecked else ""
        results += [
            hub().EvalResult(**common, **_metric(verdicts, row, lead))
            for verdicts in run.verdicts
            for row in listed_first(verdicts, rows)[0]
            if row.defined and not not_measured(row) and not too_few(row)
        ]
    return results


def is_ours(result: Any) -> bool:
    """Return whether an entry of a ``model-index`` was written here."""
    dataset = result.get("dataset") if isinstance(result, Mapping) else None
    if not isinstance(dataset, Mapping) or not isinstance(dataset.get("args"), Mapping):
        return False
    return str(dataset.get("type")).startswith(OURS) and FINGERPRINT in dataset["args"]


def _common(run: CardInput) -> dict[str, Any]:
    report = run.report
    settings = report.settings
    is_imported = settings.get("origin") in ("imported", "counted")  # then the hash is of images or counts
    encoders = {
        one_line(name): one_line(card.get("weights_sha256") or card.get("revision") or "")
        for name, card in report.encoder_cards.items()
    }
    return {
        "task_type": "text-to-image",
        "dataset_type": OURS + (_slug(report.suite.name) or "suite"),
        "dataset_name": one_line(report.suite.title),
        "dataset_config": _slug(f"seed-{settings.get('seed', '')}"),
        "dataset_args": _drop_unknown(
            {
                "suite": one_line(report.suite.name),
                FINGERPRINT: one_line(settings.get("suite fingerprint", "")),
                "images": one_line(settings.get("images", "")),
                "created": one_line(settings.get("created", "")),
                "model": one_line(report.model_card.get("name", "")),
                "revision": _plain(report.model_card.get("revision")),
                "weights_sha256": None if is_imported else _plain(report.model_card.get("weights_sha256")),
                "encoders": encoders,
                "clinometer": _plain((settings.get("versions") or {}).get("clinometer")),
            }
        ),
    }


def _slug(name: str) -> str:
    """Return a name of letters that a hub's names have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")


def _plain(value: Any) -> str | None:
    return one_line(value) if value else None


def _metric(verdicts: Verdicts, row: Row, lead: str) -> dict[str, Any]:
    (low, high), verdict = row.ends(verdicts.over), verdicts.verdict(row)
    named = f"{verdicts.title}, {verdicts.name(row)} {verdicts.interval(row)}"
    return {
        "metric_type": _slug(row.component),
        "metric_name": one_line(f"{lead}{named}: {verdict}"),
        "metric_value": float(row.value),
        "metric_args": _drop_unknown(
            {
                "low": _number(low),
                "high": _number(high),
                "q": _number(row.q),
                "verdict": one_line(verdict),
                "n": row.n_target or None,
                "encoder": one_line(row.encoder),
            }
        ),
    }


def _drop_unknown(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def _number(value: float) -> float | None:
    return float(value) if isfinite(value) else None


__all__ = ["CardInput", "eval_results", "merged", "section_of"]
