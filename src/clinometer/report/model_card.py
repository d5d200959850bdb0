"""The part of a model card that is about bias: runs in Markdown, and in the metadata that the Hub reads.

All words and numbers of the section are the report's own. Nothing is worded here but headings.

The Hub's format (``model-index``) has no place for an interval or a verdict but the arguments of a metric, so they
stand there as data; and in its name, as that is shown. Numbers are those of the scores, without rounding. What could
not be measured or judged, also for want of images, is left out: the format knows no reason.

Into a card that somebody else writes, our section and our results are put; all else stays as it is. The metadata's text
is not written again, as that would drop its comments and its layout: one key of it is replaced. See decision 49.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from html.parser import HTMLParser
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from clinometer._messages import printable
from clinometer.errors import InvalidInputError, ModelError
from clinometer.report import wording
from clinometer.report.html import environment as page_environment
from clinometer.report.page import Page
from clinometer.report.readings import reader_table
from clinometer.report.sections import facts, measured_how, refusal_words
from clinometer.report.verdicts import Verdicts, unmeasured
from clinometer.report.view import PairView, ReportInput, Row, View
from clinometer.runs.record import Departure

if TYPE_CHECKING:
    import huggingface_hub

ROWS: Final = 20
"""Verdicts of a run that a card lists; the others are counted."""


@dataclass(frozen=True)
class CardInput:
    """A run as a card shows it.

    Attributes
    ----------
    report : what its report is made from.
    page : how its study is shown.
    command : the command that makes the run again.
    missing : what the command takes that the run does not name; empty where it names all.
    """

    report: ReportInput
    page: Page[Any]
    command: str
    missing: str = ""

    @cached_property
    def view(self) -> Any:
        """The run as the sections of its page see it."""
        return self.page.view.of(self.report)

    @cached_property
    def verdicts(self) -> Sequence[Verdicts]:
        """What is judged, one list for each quantity."""
        return self.page.verdicts(self.view)


def section_of(runs: Sequence[CardInput], *, rows: int, version: str) -> str:
    """Return the section in Markdown, without the markers that tell it from its surroundings.

    Parameters
    ----------
    runs : what it shows, one after the other.
    rows : verdicts of each quantity that are listed.
    version : the version of clinometer that writes it.
    """
    template = environment().get_template("model_card.md")
    unchecked = [(run.report.title, run.report.unchecked) for run in runs if run.report.unchecked]
    return template.render(runs=[_values(run, rows) for run in runs], unchecked=unchecked, version=version).strip()


def listed_first(verdicts: Verdicts, rows: int) -> tuple[list[Row], list[Row]]:
    """Split into the rows that a card lists, those that name a side first, then the stronger ones; and the others."""

    def order(row: Row) -> tuple[int, float]:
        place = 0 if wording.leans(row) else 1 + wording.VERDICT_GROUPS.index(wording.verdict_group_of(row))
        return place, -abs(row.value) if row.defined else 0.0

    ranked = sorted(verdicts.rows, key=order)
    return ranked[:rows], ranked[rows:]


def _values(run: CardInput, rows: int) -> dict[str, Any]:
    view: View = run.view
    # list the facts of the report's first screen, then what pins the models, their settings and the software
    how = measured_how(view)
    settings = view.report.settings
    pinned = [("Generator", _in_a_cell(how["generator"]["identity"]))]
    pinned += [("Settings", _in_a_cell(how["generator"]["settings"]))]
    pinned += [(f"Encoder {card['name']}", _in_a_cell(card["identity"])) for card in how["encoders"]]
    more = [
        ("Images asked for", str(settings.get("images", ""))),
        ("Suite fingerprint", str(settings.get("suite fingerprint", ""))),
        *pinned,
        ("Software", _in_a_cell(list(_versions(view).items()))),
    ]
    return {
        "title": run.report.title,
        "finding": run.page.finding(view),
        "strongest": run.page.strongest(view),
        "facts": [*facts(view), *((name, value) for name, value in more if value)],
        "verdicts": [_table(verdicts, rows) for verdicts in run.verdicts],
        "readers": reader_table(view),
        "warnings": _warnings(run),
        "departures": [Departure(**departure).sentence for departure in run.report.departures or ()],
        "limits": limits_of(run.page, view),
        "missing": run.missing,
        "command": fenced(one_line(run.command), "sh"),
        "measured_by": _versions(view).get("clinometer", "of an unknown version"),
        "asked": (
            f"{run.report.suite.description} Source: {run.report.suite.source}"
            if run.report.suite.source
            else run.report.suite.description or run.report.suite.title
        ),
    }


def _versions(view: View) -> dict[str, str]:
    return {name: str(version) for name, version in (view.report.settings.get("versions") or {}).items() if version}


def _in_a_cell(pairs: Sequence[tuple[str, str]]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in pairs if name != "name")


def _table(verdicts: Verdicts, rows: int) -> dict[str, Any]:
    first, rest = listed_first(verdicts, rows)
    counts = f"In total: {wording.counted(verdicts.rows, verdicts.label)}."
    others = f" {len(rest):,} of them are not listed: {wording.counted(rest, verdicts.label)}." if rest else ""
    return {
        "quantity": f"{verdicts.title}: {verdicts.meaning}",
        "head": (
            wording.capitalised(verdicts.heading or verdicts.unit), verdicts.title, "95 % interval", "q", "Verdict",
            "Note",
        ),
        "rows": [
            (
                verdicts.name(row), verdicts.value(row) or wording.MISSING, Markup(verdicts.interval(row)),
                wording.bare_probability(row.q), verdicts.verdict(row), "; ".join(verdicts.notes_of(row)),
            )
            for row in first
        ],
        "counted": counts + others,
    }  # fmt: skip


def _warnings(run: CardInput) -> list[str]:
    """Gather what the report says where something is missing: files, verdicts, pictures."""
    missing = [unmeasured(verdicts.rows, verdicts.unit) for verdicts in run.verdicts]
    refusals = refusal_words(run.view) if isinstance(run.view, PairView) else ""
    damage = [f"Part of this run is missing, damaged or has changed: {line}" for line in run.report.damage]
    lacking = [f"Not measured: {reasons}." for reasons in dict.fromkeys(missing) if reasons]
    return [*damage, *lacking, *([refusals] if refusals else [])]


LIMITS = "method-limits"
"""The id of the section that has the limits, in a list of the class ``limits``."""


def limits_of(page: Page[Any], view: View) -> list[tuple[str, str]]:
    """Return the limits in the order and the words of the page: what stands out of each, and the rest.

    None of a study whose page has no such section.
    """
    section = next((section for section in page.sections if section.id == LIMITS), None)
    values = section.build(view) if section is not None else None
    if section is None or values is None:
        return []
    names = [f"{section.template}.html", f"sections/{section.template}.html"]
    reader = _Limits()
    reader.feed(page_environment(page.package).select_template(names).render(s=values, view=view))
    reader.close()
    return [(" ".join(lead.split()), " ".join(rest.split())) for lead, rest in reader.limits]


class _Limits(HTMLParser):
    """Reads the list: what is strong leads an item, all else follows it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.limits: list[list[str]] = []
        self._inside = self._is_item = self._is_lead = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "ul":
            self._inside = ("class", "limits") in attrs
        elif tag == "li" and self._inside:
            self.limits.append(["", ""])
            self._is_item = True
        elif tag == "strong":
            self._is_lead = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "ul":
            self._inside = False
        elif tag == "li":
            self._is_item = False
        elif tag == "strong":
            self._is_lead = False

    def handle_data(self, data: str) -> None:
        if self._is_item:
            self.limits[-1][0 if self._is_lead else 1] += data


_ENTITIES: Final = {ord(character): f"&#{ord(character)};" for character in "|$\\`~"} | {
    ord("&"): "&amp;",
    ord("<"): "&lt;",
    ord(">"): "&gt;",
}
_BACKSLASHED: Final = re.compile(r"[*\[\]]|(?<![^\W_])_|_(?![^\W_])")
"""What begins emphasis or a link; an underscore between letters begins nothing."""

_LEADING: Final = re.compile(r"^([+=-]+)(?=\s|$|[=-])|(?<!\S)(#+)|^(\d{1,9})([.)])(?=\s|$)")
"""What would begin a heading, a list or a rule, were it the first word of a line; or end a heading."""


def escaped(text: object) -> str:
    r"""Return text on one line in which Markdown and HTML find nothing, in a table's cell too.

    Entities stand for what HTML, tables, code and mathematics are written with: CommonMark reads no structure in them,
    and readers differ in what they make of a backslash.

    >>> escaped("a_b _c | <b>`x`\n# y")
    'a_b \\_c &#124; &lt;b&gt;&#96;x&#96; &#35; y'
    >>> escaped("# a"), escaped("1. a"), escaped("+0.30"), escaped("- ")
    ('&#35; a', '1&#46; a', '+0.30', '&#45;')
    """
    line = one_line(text).translate(_ENTITIES)
    return _LEADING.sub(_as_entities, _BACKSLASHED.sub(r"\\\g<0>", line))


def _as_entities(found: re.Match[str]) -> str:
    if found[3]:
        return f"{found[3]}&#{ord(found[4])};"
    return "".join(f"&#{ord(character)};" for character in found[0])


def one_line(text: object) -> str:
    r"""Return text without characters that are not shown, its white space as single spaces.

    >>> one_line("a\n\n b\x07")
    'a b\ufffd'
    """
    return printable(" ".join(str(text).split()))


def fenced(text: str, language: str = "") -> Markup:
    """Return a block of code that its text cannot end.

    >>> print(fenced("a ``` b", "sh"))
    ````sh
    a ``` b
    ````
    """
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markup(f"{fence}{language}\n{text}\n{fence}")


@cache
def environment() -> Environment:
    """Return the templates of Markdown; whatever is put into them is escaped, unless it is Markdown already."""

    def finalize(value: Any) -> Any:
        return value if isinstance(value, Markup) else escaped(value)

    environment = Environment(
        loader=PackageLoader("clinometer.report"),
        autoescape=False,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cells"] = cells
    return environment


def cells(texts: Iterable[object]) -> Markup:
    """Return a row of a table, of texts and of what is Markdown already."""
    return Markup(f"| {' | '.join(text if isinstance(text, Markup) else escaped(text) for text in texts)} |")


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
            if row.defined and not wording.not_measured(row) and not wording.too_few(row)
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
