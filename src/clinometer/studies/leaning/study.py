"""The leaning study: MCAS, internal bias and xMCAS from the embeddings of a run, and which of them the papers print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite, nan
from typing import Any, Final

import pandas as pd

from clinometer.metrics import Score
from clinometer.metrics.mcas import IMAGE_PART, TEXT_PART, xmcas
from clinometer.metrics.records import DECIDES, MEAN, READING
from clinometer.metrics.verdict import Source, source_of, withheld_by_shares
from clinometer.ratings import Rated
from clinometer.report.differences import RunsCompared
from clinometer.report.page import Page
from clinometer.report.view import Row, Scores
from clinometer.runs.drawing import parts_without_trace, trace_parts
from clinometer.runs.run import Run
from clinometer.stats.power import images_for_share, standard_error_of
from clinometer.studies.leaning import Evidence, StoppingRule, counted_once, evidence_of, paired_evidence
from clinometer.studies.leaning.compare import split_rows
from clinometer.studies.leaning.embeddings import (
    design_of_suite,
    draw_prior_embeddings,
    embed_own_texts,
    embeddings_of_two,
    encoder_embeddings,
    lacks_own_texts,
    missing_pictures,
    parts_without_prior,
    with_missing,
)
from clinometer.studies.leaning.pair_and_axes import compare_fidelity, shape_of
from clinometer.studies.leaning.scores.measuring import pairs_counted_once
from clinometer.studies.leaning.scores.rows import images_needed
from clinometer.studies.leaning.view import COMPONENT_NAMES, axes_of, axis_component
from clinometer.studies.study import (
    ComparedGroups,
    Pairing,
    PartStage,
    Pool,
    PrintedCell,
    PrintedCells,
    PrintedTable,
    RunNumber,
    Scored,
    Study,
    WholeStage,
    in_shape,
    suite_of,
)
from clinometer.suites import LeaningSuite

SWAPPED_CENTROID: Final = (0.0, 1 / 3)
"""The centroid that the printed distances of the xMCAS paper fit: its axes are swapped."""


def category_cells(table: PrintedTable) -> Iterator[PrintedCell]:
    """Yield average and standard deviation of MCAS by category: of terms with a bias to either side, and of all."""
    axis = in_shape(table.suite, LeaningSuite).compared
    sides = {
        "male_biased": ("category_by_sign", axis.a, "terms with male bias"),
        "female_biased": ("category_by_sign", axis.b, "terms with female bias"),
        "all": ("category", "", "all terms"),
    }
    for side, (metric, group, label) in sides.items():
        for component, word in (("mean", "average"), ("std", "standard deviation")):
            for row in table.rows:
                number = table.find(metric, component, category=row["category"], group=group)
                column = f"{word}, {label}"
                yield table.cell(row, f"{side}_{component}", column, number, category=row["category"])


def internal_bias_cells(table: PrintedTable) -> Iterator[PrintedCell]:
    """Yield MCAS, δ and α of every target."""
    yield from _of_targets(table, "mcas", "mcas", "mcas", "MCAS")
    yield from _of_targets(table, "diffusion_bias", "internal_bias", "diffusion_bias", "δ")
    yield from _of_targets(table, "bias_amplification", "internal_bias", "bias_amplification", "α")


def internal_bias_summary_cells(table: PrintedTable) -> Iterator[PrintedCell]:
    """Yield the summaries of δ and α by stereotype."""
    axis = in_shape(table.suite, LeaningSuite).compared
    groups = {"male": axis.a, "female": axis.b, "all": ""}
    for symbol, quantity in (("δ", "diffusion_bias"), ("α", "bias_amplification")):
        for statistic, word in (("min", "min"), ("max", "max"), ("mean", "mean"), ("standard_error", "±")):
            for row in table.rows:
                component, group = f"{quantity}_{statistic}", groups[row["stereotype"]]
                number = table.find("internal_bias_summary", component, category="all", group=group)
                names = {"category": "all", "group": row["stereotype"]}
                yield table.cell(row, component, f"{word} {symbol}", number, **names)


def xmcas_cells(table: PrintedTable) -> Iterator[PrintedCell]:
    """Yield MCAS, angle and distance of every target, and the distance from the centroid that the print fits."""
    yield from _of_targets(table, "mcas", "mcas", "mcas", "MCAS")
    yield from _of_targets(table, "theta_rad", "xmcas", "angle", "θ")
    yield from _of_targets(table, "euclidean_od", "xmcas", "distance", "o-d")
    offset = table.find("xmcas", "offset").value
    for row in table.rows:
        number = _fit_swapped(table, row["target"], offset)
        names = {"concept": row["target"], "category": row["category"]}
        yield table.cell(row, "euclidean_od", "o-d, axes swapped", number, **names)


def _of_targets(
    table: PrintedTable, printed_column: str, metric: str, component: str, label: str
) -> Iterator[PrintedCell]:
    """Yield a column of a table that has a row a target."""
    for row in table.rows:
        number = table.find(metric, component, concept=row["target"])
        yield table.cell(row, printed_column, label, number, concept=row["target"], category=row["category"])


def _fit_swapped(table: PrintedTable, target: str, offset: float) -> RunNumber:
    """Return a target's distance from the centroid that the printed column fits."""
    mcas = table.find("mcas", "mcas", concept=target)
    similarity = table.find("xmcas", "similarity", concept=target).value
    if not (isfinite(mcas.value) and isfinite(similarity) and isfinite(offset)):
        return RunNumber(encoder=mcas.encoder, notes=("the target's place or the offset is undefined",))
    place = xmcas(mcas=mcas.value, similarity=similarity, offset=offset, centroid=SWAPPED_CENTROID)
    notes = ("no interval: this distance serves the comparison only",)
    return RunNumber(float(place.distance), encoder=mcas.encoder, notes=notes)


PRINTED: Final[Mapping[str, PrintedCells]] = {
    "mcas_categories": category_cells,
    "internal_bias": internal_bias_cells,
    "internal_bias_summary": internal_bias_summary_cells,
    "xmcas": xmcas_cells,
}


# --- study -----------------------------------------------------------------------------------------------------------


SHARES: Final = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)
"""Shares of images on one side that an audit may want to find."""


class Leaning(Study[LeaningSuite]):
    """How far the pictures of concepts lie to one of two groups, or of the groups of axes (MCAS, xMCAS)."""

    key = "leaning"
    suite = LeaningSuite
    printed_tables = PRINTED
    stages = (
        WholeStage(embed_own_texts, "texts in the model's own encoders", lacks_own_texts),
        PartStage(draw_prior_embeddings, "the prior's embeddings", parts_without_prior),
        PartStage(trace_parts, "tracing", parts_without_trace),
    )
    groups_grow = True
    text_components = (TEXT_PART,)
    component_names = COMPONENT_NAMES | {
        "internal_bias_summary:diffusion_bias_mean": "mean diffusion bias \N{GREEK SMALL LETTER DELTA}",
        "internal_bias_summary:bias_amplification_mean": "mean bias amplification \N{GREEK SMALL LETTER ALPHA}",
        "category:std": "spread of MCAS over concepts",
        "category:mean": "mean MCAS",
    }

    def page(self, suite: LeaningSuite) -> Page[Any]:
        """Return the page of a pair of groups, or that of axes and cells."""
        return shape_of(suite).page

    def comparison(self, suite: LeaningSuite) -> RunsCompared[LeaningSuite]:
        """Return the page that compares leanings to one of a pair of groups, or along axes."""
        return shape_of(suite).comparison

    def score(self, run: Run, resamples: int, pool: Pool | None = None) -> Scored:
        """Score a pair of groups by the MCAS family, or the cells of axes; a ``pool`` measures the targets."""
        return shape_of(suite_of(run, LeaningSuite)).score(run, resamples, pool)

    def compare(self, pairing: Pairing) -> list[Score]:
        """Compare two runs, second minus first."""
        return shape_of(suite_of(pairing.runs[0], LeaningSuite)).compare(pairing)

    def open_concepts(self, run: Run, rule: StoppingRule, encoders: Sequence[str]) -> list[str]:
        """List the targets that the images so far do not decide, by these encoders."""
        suite = suite_of(run, LeaningSuite)
        design = design_of_suite(suite)
        embeddings = counted_once([encoder_embeddings(run, suite, encoder) for encoder in encoders], design)
        stands = evidence_of(embeddings, design)
        return [target.name for target, stand in zip(suite.targets, stands, strict=True) if not stand.stops(rule)]

    def paired_evidence_of(self, pairing: Pairing) -> dict[str, Evidence]:
        """Judge each target's difference, second minus first, by the pairs of images."""
        suite = suite_of(pairing.runs[0], LeaningSuite)
        pairs = pairs_counted_once(*embeddings_of_two(pairing))
        stands = paired_evidence(*pairs, design_of_suite(suite))
        return {target.name: stand for target, stand in zip(suite.targets, stands, strict=True)}

    def split(self, pairing: Pairing) -> list[Score]:
        """Split the leaning of the second run into that of the first, at guidance 1, and what guidance adds.

        Attribute images are the first run's, all of them, also those without a partner.

        Raises
        ------
        SuiteError
            The suite has axes, and no one pair of groups.
        """
        runs, encoders, seeds = pairing.runs, pairing.encoders, pairing.seeds or frozenset()
        suite = suite_of(runs[0], LeaningSuite)
        suite.pair_for("the split by guidance")
        attribute_seeds = {sample.seed for sample in runs[0].plan if sample.role == "attribute"}
        first = [encoder_embeddings(runs[0], suite, name, {*seeds, *attribute_seeds}) for name in encoders]
        second = [encoder_embeddings(runs[1], suite_of(runs[1], LeaningSuite), name, seeds) for name in encoders]
        missing, design = missing_pictures(pairing, suite), with_missing(design_of_suite(suite), runs[0])
        if missing is not None:  # a pair that lacks either of its pictures
            pairs = Counter(sample.concept for sample in runs[0].plan if sample.concept and sample.seed not in seeds)
            targets = tuple(replace(target, missing=pairs[target.name]) for target in design.targets)
            design, lost = replace(design, targets=targets), design.missing_attributes
            missing = replace(missing, attributes=(lost, lost))
        return split_rows(first, second, design, missing=missing, fidelity=compare_fidelity(pairing))

    def plan(self, pilot: Run, effect: float | None, margin: float | None, power: float, alpha: float) -> pd.DataFrame:
        """Count the images that every concept takes by a pilot, whose pictures are read as ``score`` reads them."""
        suite = suite_of(pilot, LeaningSuite)
        suite.pair_for("plan")
        design = replace(with_missing(design_of_suite(suite), pilot), margin=margin)
        embeddings = counted_once(
            [encoder_embeddings(pilot, suite, encoder) for encoder in pilot.encoder_cards], design
        )
        needed = vars(images_needed(embeddings, design, effect=effect, power=power, alpha=alpha))
        by_concept = pd.DataFrame(needed, index=[target.name for target in design.targets])
        scores = pilot.scores
        read = scores[scores.metric == READING]
        decides = read[(read.component == "separation") & (read.flag == DECIDES)].head(1)
        read = read[read.encoder.isin(decides.encoder) & read.setting.isin(decides.setting)]
        read = read[read.component == "ratings_to_decide"]
        ratings = dict(zip(read.concept, read.value, strict=True))
        concepts = []
        rows = scores[(scores.metric == "mcas") & (scores.component == IMAGE_PART) & (scores.encoder == "mean")]
        for row in rows.to_dict("records"):
            concept, error = str(row["concept"]), standard_error_of(float(row["low"]), float(row["high"]))
            reason = _why_no_number(row, error)
            known: dict[Any, Any] = dict.fromkeys(needed, nan) if reason else by_concept.loc[concept].to_dict()
            concepts.append({
                "concept": concept, "estimate": float(row["value"]), "standard_error": error,
                "images": int(row["n_target"]), **known, "ratings": float(ratings.get(row["concept"], nan)),
                "reason": reason,
            })  # fmt: skip
        return pd.DataFrame(concepts)

    def plan_unseen(self, suite: LeaningSuite, power: float, alpha: float) -> pd.DataFrame:
        """Count the images that find a share of images on one side, a row a share."""
        axis = suite.pair_for("plan")
        prompts = (len(suite.groups[name].prompts) for name in (axis.a, axis.b))
        a, b = (suite.images.attribute * n / suite.images.target for n in prompts)  # of groups, for each of a concept
        counts = [images_for_share(share, power=power, alpha=alpha, attribute_images=(a, b)) for share in SHARES]
        return pd.DataFrame({"share": SHARES, "to_detect": counts})

    def check_rounds(self, suite: LeaningSuite, labelled: bool) -> None:
        """Refuse axes: rounds follow one pair of groups, whether or not anything is labelled."""
        suite.pair_for("--until")

    def check_trace(self, suite: LeaningSuite) -> None:
        """Refuse axes: a trace follows one pair of groups."""
        suite.pair_for("--trace")

    def compared_groups(self, suite: LeaningSuite) -> Sequence[ComparedGroups]:
        """Return the two groups, or the levels of each axis, and which prompts match."""
        pairs = {prompt.prompt: prompt.pair or "" for group in suite.groups.values() for prompt in group.prompts}
        return shape_of(suite).compared_groups(pairs)

    def counts_images(self, row: Row) -> bool:
        """Return whether a row counts all images of its concept: one of an MCAS, or of an axis."""
        return row.metric in ("mcas", "intersections")

    def restates(self, row: Row) -> bool:
        """Return whether the verdict is on the whole MCAS, which is judged by its image part, or on a profile."""
        return row.metric == "profile" or (row.metric, row.component) == ("mcas", "mcas")

    def rated(self, suite: LeaningSuite) -> Rated:
        """Return how images of targets are rated and, with a pair of groups, read by its words."""
        return shape_of(suite).rated()

    def judged(self, suite: LeaningSuite) -> list[tuple[str, str]]:
        """Return the image part of every concept, or its score along every axis."""
        return [(axis_component(axis), target.name) for axis in axes_of(suite) for target in suite.targets]

    def withhold_by_readers(self, scores: pd.DataFrame, judged: Sequence[Score]) -> pd.DataFrame:
        """Withhold verdicts on image parts that the share of the reader whose verdicts stand contradicts.

        It counts where the reader was asked for the two groups between which the image part lies, by their names.
        """
        deciding = {(row.encoder, row.setting) for row in judged if row.flag == DECIDES}
        shares = [row for row in judged if (row.encoder, row.setting) in deciding and row.component.endswith("share")]
        is_image_part = (scores.metric == "mcas") & (scores.component == IMAGE_PART) & (scores.encoder == MEAN)
        of_pair = scores[(scores.metric == "share") & (scores.component == "share") & (scores.encoder == MEAN)]
        if not (shares and is_image_part.any() and len(of_pair)):
            return scores
        before = list(Scores.from_frame(scores[is_image_part]))
        after = withheld_by_shares(before, shares, a=of_pair.group.iloc[0])
        changed = scores.copy()
        for name in ("verdict", "side", "reason_code", "reason", "n_decide"):
            changed.loc[is_image_part, name] = [getattr(row, name) for row in after]
        return changed

    def carried_by(self, scores: pd.DataFrame, rows: pd.DataFrame, limits: tuple[float, float]) -> list[Source]:
        """Return for every MCAS which of its parts, pictures or text, puts its interval where it is."""
        keys = ["metric", "concept", "category", "group", "setting", "encoder"]
        image_parts = scores[scores.component == IMAGE_PART].set_index(keys).value
        parts = image_parts.reindex(pd.MultiIndex.from_frame(rows[keys]))
        return [
            source_of(
                Score(metric="", component="mcas", value=value, low=low, high=high),
                Score(metric="", component=IMAGE_PART, value=part),
                limits,
            )
            if component == "mcas"
            else Source.NONE
            for component, value, part, low, high in zip(
                rows.component, rows.value, parts, rows.low, rows.high, strict=True
            )
        ]

    def reading_words(self, suite: LeaningSuite) -> Mapping[str, Sequence[str]]:
        """Return the words of the pair; with axes, of every cell."""
        return {name: suite.groups[name].words for name in shape_of(suite).read_groups}


def _why_no_number(row: Mapping[Any, Any], error: float) -> str:
    """Explain why the pilot does not tell how many images a concept takes; empty where it does."""
    different, repeated = int(row["n_target"]), int(row.get("n_repeated") or 0)
    if different == 1 and repeated:
        return f"its {1 + repeated} pictures are one and the same"
    if not isfinite(error):
        return str(row["reason"] or "the pilot has no interval for it")
    return "its pictures do not differ, so their spread is not known" if error == 0 else ""


LEANING: Final = Leaning()
