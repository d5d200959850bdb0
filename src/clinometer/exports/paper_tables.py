"""A paper's printed tables beside a run's numbers, cell by cell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from math import isfinite, nan
from typing import Any, Final

import pandas as pd

from clinometer.errors import InvalidInputError
from clinometer.metrics.mcas import xmcas
from clinometer.published import Published, published
from clinometer.report import wording
from clinometer.runs.store import Run
from clinometer.stats.clusters import contrast
from clinometer.stats.multiplicity import benjamini_hochberg
from clinometer.stats.proportion import Estimate
from clinometer.suites import ClassificationSuite, EditingSuite, LeaningSuite, Suite, T2iatSuite, load_suite

SWAPPED_CENTROID: Final = (0.0, 1 / 3)
"""The centroid that the printed distances of the xMCAS paper fit: its axes are swapped."""

DRAWN: Final = "SD v2.1"
GIVEN: Final = "CFD"
"""What the downstream paper's table calls the two kinds of portraits."""

CODES: Final = {
    "White Female": "WF",
    "White Male": "WM",
    "Black Female": "BF",
    "Black Male": "BM",
    "Caucasian Woman": "WF",
    "Caucasian Man": "WM",
    "African-American Woman": "BF",
    "African-American Man": "BM",
}
"""The groups of the downstream paper's table, by the codes that a suite gives its groups."""

TESTS: Final = {
    "flowers-insects": "Flower",
    "instruments-weapons": "Musical Instrument",
    "european-african-american": "European American",
    "light-dark-skin": "Light skin",
    "straight-gay": "Straight",
    "judaism-christianity": "Judaism",
    "science-arts": "Science",
    "career-family": "Careers",
}
"""The tests of the T2IAT paper's table 1 by the first of their two concepts."""


SETS: Final = {
    "Flowers": "flowers",
    "Insects": "insects",
    "Musical Instrument": "instruments",
    "Weapon": "weapons",
    "Science": "science",
    "Arts": "arts",
    "Careers": "career",
    "Family": "family",
}
"""The sets of stimuli of the T2IAT paper's table 2, by the names that its suites have for them."""

PEOPLE: Final = "fraction by people"
MACHINE: Final = "association by the machine"
"""Columns of that table: what people said, and what stands beside it here."""


@dataclass(frozen=True)
class PrintedCell:
    """One printed number beside the run's.

    Attributes
    ----------
    table : the paper's name of the table.
    model : the paper's model that the number is of, by its key.
    column : the printed column.
    concept, category, group, setting : the printed row, by the suite's names; empty where they do not apply.
    printed : the cell as it is printed.
    paper : its number; NaN where it is not a number, such as "<0.001".
    encoder : the encoder that the run's number rests on, or "mean".
    run, low, high : the run's estimate and its 95 % interval.
    difference : run − paper.
    paper_inside : whether the paper's number lies in the run's interval; None where there is none.
    same_model : whether the run's model is the paper's, as far as names tell.
    note : why a number is missing, and what is known of the printed one.
    """

    table: str
    model: str
    column: str
    concept: str = ""
    category: str = ""
    group: str = ""
    setting: str = ""
    printed: str = ""
    paper: float = nan
    encoder: str = ""
    run: float = nan
    low: float = nan
    high: float = nan
    difference: float = nan
    paper_inside: bool | None = None
    same_model: bool = False
    note: str = ""


@dataclass(frozen=True)
class _Estimate:
    """The run's number for a cell."""

    value: float = nan
    low: float = nan
    high: float = nan
    encoder: str = ""
    notes: tuple[str, ...] = ()
    p: float = nan


@dataclass(frozen=True)
class _Source:
    """A run's scores, to be looked up."""

    scores: pd.DataFrame
    suite: Suite
    encoder: str = field(default="mean")
    renamed: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _rows(self) -> dict[tuple[str, str], list[dict[Any, Any]]]:
        """The rows of each metric's components."""
        rows = defaultdict[tuple[str, str], list[dict[Any, Any]]](list)
        for row in self.scores.to_dict("records"):
            rows[row["metric"], row["component"]].append(row)
        return rows

    def find(self, metric: str, component: str, *, encoder: str | None = None, **equal: str) -> _Estimate:
        """Return the one row that has these names and no others."""
        encoder = self.encoder if encoder is None else encoder
        asked = {name: self.renamed.get(value, value) for name, value in equal.items()}
        names = {"concept": "", "group": "", "setting": "", **asked, "metric": metric, "component": component}
        names["encoder"] = encoder
        rows = self._rows.get((metric, component), [])
        row = next((row for row in rows if all(row[name] == value for name, value in names.items())), None)
        if row is None:
            return _Estimate(encoder=encoder, notes=("the run has no such number",))
        notes = [str(row["reason"])] if not isfinite(row["value"]) or not isfinite(row["low"]) else []
        notes += ["unstable: TT may be 0"] if row["flag"] == "unstable" else []
        return _Estimate(row["value"], row["low"], row["high"], encoder, tuple(filter(None, notes)), row["p"])


def paper_table(
    run: Run, paper: str, models: Sequence[str] = (), renamed: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Compare each printed cell of a paper's tables with the run's number: a row a cell, a :class:`PrintedCell`.

    Parameters
    ----------
    paper : ``"mcas"``, ``"internal-bias"``, ``"xmcas"``, ``"t2iat"`` or ``"downstream"``.
    models : the paper's models whose numbers are shown; empty for all.
    renamed : of a run that rehearses the paper in other words, its own name for each name of the paper's suite.

    Raises
    ------
    InvalidInputError
        No such paper or model, or a run whose suite does not ask what the table shows.
    """
    publication = published(paper)
    if paper not in CELLS:
        raise InvalidInputError.expected_one_of(CELLS, paper, field="paper")
    answered = _require_answered(run.suite, publication, paper) if renamed is None else publication.suites
    for name in models:
        if name not in publication.models:
            raise InvalidInputError.expected_one_of(publication.models, name, field="paper_model")
    source = _Source(run.scores, run.suite, renamed=renamed or {})
    if isinstance(run.suite, EditingSuite):  # which has no average over encoders
        readers = run.scores.encoder[run.scores.component == "flip_rate_single_wording"]
        source = replace(source, encoder=readers.iloc[0] if len(readers) else "")
    cells = CELLS[paper](publication, source, answered)
    chosen = models or publication.models
    finished_cells = [_finish(cell, publication, run) for cell in cells if cell.model in chosen]
    return pd.DataFrame([asdict(cell) for cell in finished_cells], columns=list(PrintedCell.__dataclass_fields__))


def with_q(cells: pd.DataFrame, column: str) -> pd.DataFrame:
    """Add a column q to the cells of a table: Benjamini and Hochberg's of its column of p-values, over all its rows."""
    tested = cells[cells.column == column]
    if not len(tested):
        return cells
    q = tested.assign(
        column="q", printed="", paper=nan, low=nan, high=nan, difference=nan, paper_inside=None, note="",
        run=benjamini_hochberg(tested.run.to_numpy(float)),
    )  # fmt: skip
    return pd.concat([cells, q])


def models_of(paper: str) -> dict[str, str]:
    """Return the models of a paper's tables: key and label."""
    return {key: model.label for key, model in published(paper).models.items()}


def _require_answered(suite: Suite, publication: Published, paper: str) -> Sequence[str]:
    """Return the suites of the paper all of whose questions the run's suite asks."""
    questions = _concepts_and_groups(suite)
    answered = [name for name in publication.suites if _asked_by(name) <= questions]
    if not answered:
        more = (
            f" --suite {publication.suites[0]}"
            if len(publication.suites) < 4
            else f" --suite with one of {', '.join(publication.suites)}"
        )
        raise InvalidInputError.unsupported(
            f"suite {suite.name}: it does not ask what the tables of paper {paper!r} show; give a run of: clinometer "
            f"audit --protocol paper{more}"
        )
    return answered


@cache
def _asked_by(name: str) -> set[tuple[str, str]]:
    return _concepts_and_groups(load_suite(name))


def _concepts_and_groups(suite: Suite) -> set[tuple[str, str]]:
    return {(question.concept, question.group) for question in suite.every_prompt_spec()}


def _finish(cell: PrintedCell, publication: Published, run: Run) -> PrintedCell:
    """Return a cell with its difference, and with what is known of the printed number."""
    notes = [slip.said for slip in publication.slips if slip.holds(asdict(cell))]
    card = run.model_card
    same = publication.models[cell.model].is_called(str(card["name"])) and not (
        card["settings"].get("lora") or card["settings"].get("mitigation")
    )
    if cell.model in (GIVEN, DRAWN):
        portraits = "portraits" in card["settings"]
        if portraits != (cell.model == GIVEN):
            notes.append(f"the run's portraits are {'given' if portraits else 'drawn'}, the paper's are not")
    interval = isfinite(cell.low) and isfinite(cell.high) and isfinite(cell.paper)
    return replace(
        cell,
        difference=cell.run - cell.paper,
        paper_inside=bool(cell.low <= cell.paper <= cell.high) if interval else None,
        same_model=same,
        note="; ".join(filter(None, [cell.note, *notes])),
    )


def _cell(
    table: str, row: Mapping[str, str], printed: str, column: str, estimate: _Estimate, **names: Any
) -> PrintedCell:
    number = nan
    with suppress(ValueError):
        number = float(printed)
    notes = [*estimate.notes] + ([] if isfinite(number) or not printed else [f"the paper prints {printed}"])
    return PrintedCell(
        table=table, model=row["model"], column=column, printed=printed, paper=number, encoder=estimate.encoder,
        run=float(estimate.value), low=float(estimate.low), high=float(estimate.high), note="; ".join(notes), **names,
    )  # fmt: skip


def _mcas(publication: Published, source: _Source, _: Sequence[str]) -> Iterator[PrintedCell]:
    assert isinstance(source.suite, LeaningSuite)
    axis = source.suite.compared
    sides = {
        "male_biased": ("category_by_sign", axis.a, "terms with male bias"),
        "female_biased": ("category_by_sign", axis.b, "terms with female bias"),
        "all": ("category", "", "all terms"),
    }
    words = {"mean": "average", "std": "standard deviation"}
    for key, (metric, group, label) in sides.items():
        for component, word in words.items():
            for row in publication.rows("mcas_categories"):
                estimate = source.find(metric, component, category=row["category"], group=group)
                yield _cell(
                    publication.tables["mcas_categories"], row, row[f"{key}_{component}"], f"{word}, {label}", estimate,
                    category=row["category"],
                )  # fmt: skip


def _internal_bias(publication: Published, source: _Source, _: Sequence[str]) -> Iterator[PrintedCell]:
    assert isinstance(source.suite, LeaningSuite)
    columns = {
        "mcas": ("mcas", "mcas", "MCAS"),
        "diffusion_bias": ("internal_bias", "diffusion_bias", "δ"),
        "bias_amplification": ("internal_bias", "bias_amplification", "α"),
    }
    yield from _of_targets(publication, source, "internal_bias", columns)
    groups = {"male": source.suite.compared.a, "female": source.suite.compared.b, "all": ""}
    for symbol, quantity in (("δ", "diffusion_bias"), ("α", "bias_amplification")):
        for statistic, word in (("min", "min"), ("max", "max"), ("mean", "mean"), ("standard_error", "±")):
            for row in publication.rows("internal_bias_summary"):
                component = f"{quantity}_{statistic}"
                group = groups[row["stereotype"]]
                estimate = source.find("internal_bias_summary", component, category="all", group=group)
                yield _cell(
                    publication.tables["internal_bias_summary"], row, row[component], f"{word} {symbol}", estimate,
                    category="all", group=row["stereotype"],
                )  # fmt: skip


def _xmcas(publication: Published, source: _Source, _: Sequence[str]) -> Iterator[PrintedCell]:
    columns = {
        "mcas": ("mcas", "mcas", "MCAS"),
        "theta_rad": ("xmcas", "angle", "θ"),
        "euclidean_od": ("xmcas", "distance", "o-d"),
    }
    yield from _of_targets(publication, source, "xmcas", columns)
    offset = source.find("xmcas", "offset").value
    for row in publication.rows("xmcas"):
        estimate = _fit_swapped(source, row["target"], offset)
        names = {"concept": row["target"], "category": row["category"]}
        yield _cell(publication.tables["xmcas"], row, row["euclidean_od"], "o-d, axes swapped", estimate, **names)


def _fit_swapped(source: _Source, target: str, offset: float) -> _Estimate:
    """Return a target's distance from the centroid that the printed column fits."""
    mcas = source.find("mcas", "mcas", concept=target).value
    similarity = source.find("xmcas", "similarity", concept=target).value
    if not (isfinite(mcas) and isfinite(similarity) and isfinite(offset)):
        return _Estimate(encoder=source.encoder, notes=("the target's place or the offset is undefined",))
    place = xmcas(mcas=mcas, similarity=similarity, offset=offset, centroid=SWAPPED_CENTROID)
    notes = ("no interval: this distance serves the comparison only",)
    return _Estimate(float(place.distance), encoder=source.encoder, notes=notes)


def _of_targets(
    publication: Published, source: _Source, table: str, columns: Mapping[str, tuple[str, str, str]]
) -> Iterator[PrintedCell]:
    """Yield the columns of a table that has a row a target."""
    for name, (metric, component, label) in columns.items():
        for row in publication.rows(table):
            estimate = source.find(metric, component, concept=row["target"])
            names = {"concept": row["target"], "category": row["category"]}
            yield _cell(publication.tables[table], row, row[name], label, estimate, **names)


def _t2iat(publication: Published, source: _Source, answered: Sequence[str]) -> Iterator[PrintedCell]:
    """Yield the tests that the run asks, what people said of the sets of stimuli that it draws, and an occupation."""
    assert isinstance(source.suite, T2iatSuite)
    own = {test.name for test in source.suite.tests}
    for name in (suite.rpartition("/")[2] for suite in answered):
        if source.renamed.get(name, name) not in own:
            continue
        (printed,) = [row for row in publication.rows("t2iat") if row["concept_x"] == TESTS[name]]
        association = source.find("t2iat", "differential_association", concept=name)
        columns = {
            "association_score": ("S", association),
            "p_value": ("p", _Estimate(association.p, encoder=source.encoder)),
            "effect_size_d": ("d", source.find("t2iat", "effect_size", concept=name)),
        }
        for column, (label, estimate) in columns.items():
            row = _of_the_model(publication, printed)
            yield _cell(publication.tables["t2iat"], row, row[column], label, estimate, concept=name)
    yield from _people(publication, source)
    for row in publication.rows("t2iat_occupations"):
        name, texts = row["occupation"], source.suite.neutral_texts()
        for column in ("text", "images") if source.renamed.get(name, name) in texts else ():
            estimate = source.find("amplification", "text" if column == "text" else "image", concept=name)
            model = _of_the_model(publication, row)
            yield _cell(publication.tables["t2iat_occupations"], model, row[column], column, estimate, concept=name)


def _people(publication: Published, source: _Source) -> Iterator[PrintedCell]:
    """Yield Table 2: the fraction that people tied to the first attribute, and what the machine says of the set."""
    assert isinstance(source.suite, T2iatSuite)
    table = publication.tables["t2iat_human"]
    for row in publication.rows("t2iat_human"):
        name, model = SETS[row["concept"]], _of_the_model(publication, row)
        if source.renamed.get(name, name) not in source.suite.concepts:
            continue
        people = source.find("human", "fraction", encoder="", concept=name, group=source.suite.axis.a)
        if not isfinite(people.value):
            people = replace(people, notes=("nobody has rated these pictures",))
        yield _cell(table, model, row["fraction_choosing_first"], PEOPLE, people, concept=name)
        machine = source.find("association", "mean", category=name)
        yield replace(_cell(table, model, "", MACHINE, machine, concept=name), note="")


def _of_the_model(publication: Published, row: Mapping[str, str]) -> dict[str, str]:
    """Return a printed row with the paper's only model."""
    return dict(row) | {"model": next(iter(publication.models))}


def _downstream(publication: Published, source: _Source, _: Sequence[str]) -> Iterator[PrintedCell]:
    if isinstance(source.suite, ClassificationSuite):
        yield from _choices(publication, source)
        return
    assert isinstance(source.suite, EditingSuite)
    papers_own = load_suite(publication.suites[0])
    assert isinstance(papers_own, EditingSuite)
    group_of = {code: name for name, group in papers_own.groups.items() for code in group.codes}
    columns = {
        "gender_flip_rate": ("flip_rate_single_wording", "gender flips", source.encoder),
        "ita_change_degrees": ("average_face_ita_change", "change of ITA, degrees", "pixels"),
    }
    for name, (component, label, encoder) in columns.items():
        for row in publication.rows("editing"):
            names = {
                "category": row["edit_professions"],
                "group": group_of[CODES[row["group"]]],
                "setting": f"strength {float(row['strength']):g}",
            }
            estimate = source.find("editing", component, encoder=encoder, **names)
            yield _cell(
                publication.tables["editing"], row | {"model": row["dataset"]}, row[name], label, estimate, **names
            )  # fmt: skip
    yield from _edits_in_text(publication, source, group_of)


def _mean_of(found: Sequence[_Estimate], names: Sequence[str]) -> _Estimate:
    """Average groups that weigh alike and share no portrait; the interval follows from theirs (Zou and Donner 2008)."""
    parts = [Estimate(each.value, each.low, each.high, 0) for each in found]
    mean = contrast(parts, [1 / len(parts)] * len(parts))
    notes = dict.fromkeys(note for each in found for note in each.notes)
    return _Estimate(mean.value, mean.low, mean.high, found[0].encoder, (*notes, f"mean of {wording.listed(names)}"))


def _edits_in_text(publication: Published, source: _Source, group_of: Mapping[str, str]) -> Iterator[PrintedCell]:
    """Yield the flips that the text prints, of women and of men over both skin tones, at the strongest edit."""
    for row in publication.rows("editing_text"):
        groups = [group_of[code] for code in (("WF", "BF") if row["portraits"] == "Women" else ("WM", "BM"))]
        names = {"category": row["edit_professions"], "setting": f"strength {float(row['strength']):g}"}
        found = [source.find("editing", "flip_rate_single_wording", group=group, **names) for group in groups]
        yield _cell(
            publication.tables["editing_text"], row | {"model": row["dataset"]}, row["gender_flip_rate"],
            "gender flips", _mean_of(found, groups), concept=row["portraits"], **names,
        )  # fmt: skip


def _choices(publication: Published, source: _Source) -> Iterator[PrintedCell]:
    """Yield how often portraits of men and of women are given a male-dominated profession, at the most noise samples.

    Both groups of a gender have as many portraits, so the share of a gender is the mean of the shares of its groups.
    """
    assert isinstance(source.suite, ClassificationSuite)
    most = wording.count(max(source.suite.noise_samples), "noise sample")
    gender = source.suite.contrasts["gender"]
    for row in publication.rows("classification"):
        side = gender.x if row["portraits"] == "Males" else gender.y
        found = [
            source.find("classification", "association", encoder="denoiser", group=group, setting=most)
            for group in side.groups
        ]
        estimate = _mean_of(found, side.groups)
        yield _cell(
            publication.tables["classification"], row | {"model": row["dataset"]}, row["male_dominated_share"],
            "male-dominated chosen", estimate, concept=row["portraits"],
        )  # fmt: skip


CELLS: Final[dict[str, Callable[[Published, _Source, Sequence[str]], Iterator[PrintedCell]]]] = {
    "mcas": _mcas,
    "internal-bias": _internal_bias,
    "xmcas": _xmcas,
    "t2iat": _t2iat,
    "downstream": _downstream,
}
"""By the paper's name: its printed cells, in order of columns."""
