"""What an audit would need and cost, before it is drawn: images, time and disk, from a pilot run where there is one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, isfinite, nan

import numpy as np
import pandas as pd

from clinometer.errors import InvalidInputError, SuiteError
from clinometer.report import wording
from clinometer.report.html import WrittenTable, notebook_html
from clinometer.runs.drawing import cost
from clinometer.runs.ledger import samples_name
from clinometer.runs.run import Run
from clinometer.stats.power import MANY, SPREAD
from clinometer.studies import study_of
from clinometer.suites import Suite

LIMITED = 1.5
"""Times the images that a concept takes where the groups' own stay as many as they are, from which on this is said."""


@dataclass(frozen=True)
class Plan:
    """What a suite needs.

    Attributes
    ----------
    table : a row a concept with a pilot (estimate, standard error, images now, images to detect, to show balance, to
        decide either, and to decide if the groups' own images stayed as many as they are, as
        :class:`clinometer.studies.leaning.scores.rows.Needed` has them; ratings, the pictures that people would have
        to rate, where a reader read the pilot; reason where the pilot has no standard error), else a row a share of
        images (share, images to detect). The groups' images grow in proportion. 10,001 stands for more than 10,000, NaN
        for no number.
    effect : what is to be detected: one size for all concepts, or NaN for what each concept's pictures tell.
    margin : within which balance is to be shown, or NaN.
    power, alpha : with which chance a verdict is reached, and the level of q over the concepts; without a pilot, that
        of p of a concept by itself.
    images : in the suite as it stands.
    attribute_images : of an attribute prompt, in proportion to the concept that needs the most of those that 10,000
        images decide; NaN without a pilot.
    images_needed : in the suite with every concept drawn as often as this one, and the groups' own images in
        proportion; NaN without a pilot.
    seconds_per_image, bytes_per_image : as the pilot measured; NaN without one.
    price : what an image costs, of a model that has a price.
    answers : those of one reader to the suite's questions, of every image as it stands.
    answer_price : what an answer costs, of a reader that has a price.
    by_server : the pilot's images came from a server, which draws several at once: ``seconds_per_image`` is what each
        of them took.
    pilot : the pilot's place, or empty.
    """

    table: pd.DataFrame
    effect: float
    margin: float
    power: float
    alpha: float
    images: int
    images_needed: float
    attribute_images: float = nan
    seconds_per_image: float = nan
    bytes_per_image: float = nan
    price: float = 0.0
    answers: int = 0
    answer_price: float = 0.0
    by_server: bool = False
    pilot: str = ""

    @property
    def hours(self) -> float:
        """Drawing time of ``images_needed`` at the pilot's rate, one after another."""
        return self.images_needed * self.seconds_per_image / 3600

    @property
    def images_each(self) -> pd.Series:
        """Images that decide each concept, one way or the other, by its name, ascending; only of those that any would.

        One concept whose leaning in the pilot is next to none may need more than all others together.
        """
        return self.table.set_index("concept").to_decide.dropna().sort_values(kind="stable")

    def images_for(self, share: float) -> float:
        """Return how many images a concept takes for this share of the concepts that can be decided to be decided."""
        return float(self.images_each.quantile(share, "higher"))

    @property
    def limited(self) -> pd.DataFrame:
        """Return the concepts that take far more images, or no number, where the groups' own do not grow."""
        kept = self.table.groups_kept.fillna(np.inf)
        return self.table[(self.table.to_decide <= MANY) & (kept > LIMITED * self.table.to_decide)]

    @property
    def cost(self) -> float:
        """What the suite as it stands costs to draw."""
        return cost(self.images, self.price)

    @property
    def answers_cost(self) -> float:
        """What one reader's answers cost for the suite as it stands."""
        return cost(self.answers, self.answer_price)

    @property
    def cost_needed(self) -> float:
        """What ``images_needed`` and one reader's answers to them cost; what ``--budget`` then has to be."""
        a_picture = self.answers / self.images if self.images else 0.0
        return cost(self.images_needed, self.price) + cost(self.images_needed * a_picture, self.answer_price)

    @property
    def gigabytes(self) -> float:
        """Disk that ``images_needed`` take at the pilot's rate."""
        return self.images_needed * self.bytes_per_image / 1e9

    def _repr_html_(self) -> str:
        table, lines = plan_in_words(self)
        return notebook_html("Plan", [self.pilot and f"by the pilot {self.pilot}"], lines, [table])


def plan_audit(
    suite: Suite,
    pilot: Run | None,
    *,
    effect: float | None = None,
    margin: float | None = None,
    power: float = 0.8,
    alpha: float = 0.05,
    price: float = 0.0,
    answer_price: float = 0.0,
) -> Plan:
    """Plan an audit of a leaning suite: images with which its verdicts are reached, by the verdicts' own tests.

    A suite of another study that can be planned without a pilot, such as steerability, is planned so alone.

    Parameters
    ----------
    pilot : a scored run of the same suite. Larger runs are drawn from its pictures' scores and judged, with all that it
        does not know of a concept; the groups' own images grow in proportion.
    effect : the size of the image part that is to be detected; by default what each concept's pictures in the pilot
        tell.
    margin : within which balance is to be shown; by default the suite's.
    power, alpha : the chance with which a verdict is to be reached, and the level of q over the concepts; without a
        pilot of p.
    price, answer_price : what an image costs, and what an answer of a reader costs.

    Raises
    ------
    SuiteError
        The suite is of another study, or the pilot's is another suite.
    InvalidInputError
        An effect or margin that is not positive, or a level outside of (0, 1).
    """
    for name, value in (("effect", effect), ("margin", margin)):
        if value is not None and not value > 0:
            raise InvalidInputError.out_of_range(f"expected a positive number, found {value}", field=name)
    for name, value in (("price", price), ("answer_price", answer_price)):
        if not value >= 0:
            raise InvalidInputError.out_of_range(f"expected 0 or more, found {value}", field=name)
    study = study_of(suite)
    _require_planned(suite, pilot, effect)
    margin = getattr(suite, "margin", None) if margin is None else margin
    plan = Plan(
        pd.DataFrame(), effect=nan if effect is None else effect, margin=nan if margin is None else margin,
        power=power, alpha=alpha, images=suite.image_count, images_needed=nan, price=price,
        answers=suite.image_count * len(suite.questions()), answer_price=answer_price,
    )  # fmt: skip
    if pilot is None:
        return replace(plan, table=study.plan_unseen(suite, power, alpha))
    table = study.plan(pilot, effect, margin, power, alpha)
    counted = table[table.to_decide <= MANY]
    attribute_images = images_needed = nan
    if len(counted):
        neediest = counted.sort_values("to_decide", kind="stable").iloc[-1]
        times = neediest.to_decide / neediest.images
        grown = {name: ceil(count * times - 1e-6) for name, count in suite.model_dump()["images"].items()}
        counts, attribute_images = grown | {"target": int(neediest.to_decide)}, grown["attribute"]
        images_needed = suite.with_options(image_counts=counts).image_count
    drawn = pilot.samples
    stored = sum(pilot.directory.size(samples_name(part)) for part in pilot.parts if pilot.drawn.has(part))
    return replace(
        plan,
        table=table,
        images_needed=float(images_needed),
        attribute_images=float(attribute_images),
        seconds_per_image=float(drawn.seconds[drawn.status == "ok"].mean()),
        bytes_per_image=stored / len(drawn),
        by_server="price_per_image" in pilot.record["model"].get("notes", {}),
        pilot=pilot.directory.shown,
    )


def _require_planned(suite: Suite, pilot: Run | None, effect: float | None) -> None:
    """Refuse a suite that cannot be planned, and a pilot that tells nothing of it."""
    study = study_of(suite)
    if not study.overrides("plan_unseen"):
        raise SuiteError.unsupported(
            f"suite {suite.name}: planning is for suites of study leaning or steerability, found {suite.study}"
        )
    if not study.overrides("plan") and (pilot is not None or effect is not None):
        raise InvalidInputError.unsupported(
            f"a suite of study {suite.study} is planned without; its report says how many images each verdict takes",
            field="effect" if pilot is None else "pilot",
        )
    if pilot is None:
        return
    if pilot.suite.content != suite.content:
        raise SuiteError.mismatch(
            f"{pilot.url}: its suite {pilot.suite.name!r} asks other things, expected one of {suite.name!r} as it "
            "stands; leave the suite out to plan by the pilot's own"
        )
    if pilot.record.get("until") is not None:
        raise SuiteError.unsupported(
            f"{pilot.url}: its images were drawn until decided, so its intervals do not say what one image "
            "contributes; give a pilot without --until"
        )


def plan_in_words(plan: Plan, images: int | None = None) -> tuple[WrittenTable, list[str]]:
    """Word a plan: a table with a row a concept or a share, and what follows from it in sentences.

    ``images`` : of a target, where they are not the suite's own.
    """
    costs = f" At {plan.price:g} each they cost {plan.cost:,.2f}." if plan.price else ""
    suite = "The suite as it stands" if images is None else f"With --images {images} the suite"
    asked = f" At {plan.answer_price:g} each they cost {plan.answers_cost:,.2f}." if plan.answer_price else ""
    lines = [
        f"{suite} draws {plan.images:,} images.{costs}",
        f"A reader of them gives {wording.count(plan.answers, 'answer')}.{asked}",
    ]
    if not plan.pilot and "reader" in plan.table:
        lines.append("No number: labelled pictures are too few to tell such a gap from the reader's own.")
        return _unseen_in_words(plan), lines
    if not plan.pilot:
        shares = [(f"{row['share']:g}", _number(row["to_detect"])) for row in plan.table.to_dict("records")]
        lines.append(
            f"These take pictures to be of two kinds that scatter by {SPREAD:g} of half the distance between them; a "
            "verdict is corrected over the concepts and may take more. A pilot knows better. Draw a small run, then: "
            "clinometer plan --pilot RUN"
        )
        tests = f"power {plan.power:g}, level {plan.alpha:g} for a concept by itself"
        title = f"Images of any concept, {wording.IN_PROPORTION}; {tests}"
        return (title, ("share of images on one side", "images to find it"), shares), lines
    reasons = plan.table.reason[plan.table.reason != ""]
    if len(reasons):
        why = wording.commonest(reasons, "concept")
        lines.append(f"Nothing can be said where the pilot does not tell the spread: {why}.")
    table = _concepts_in_words(plan)
    if len(reasons) == len(plan.table):
        return table, lines
    if isfinite(plan.images_needed):
        neediest, most = list(plan.images_each.items())[-1]
        lines.append(
            f"Half of the concepts need at most {_number(plan.images_for(0.5))} images each, nine in ten at most "
            f"{_number(plan.images_for(0.9))}; {neediest} needs {_number(most)}."
        )
        target = plan.table.to_decide[plan.table.to_decide <= MANY].max()
        lines.append(
            f"With the groups' images in proportion the suite asks for images: {{target: {target:.0f}, attribute: "
            f"{plan.attribute_images:.0f}}}."
        )
        hours = f"{plan.hours:.1f} hours" if plan.hours >= 1 else f"{60 * plan.hours:.0f} minutes"
        lines.append(
            f"For a verdict on every concept that {MANY:,} images decide, each with a chance of {plan.power:.0%}: "
            f"{plan.images_needed:,.0f} images in all, {hours} at the pilot's {plan.seconds_per_image:.2g} s an image"
            + (" one after another" if plan.by_server else "")
            + f", {plan.gigabytes:.2g} GB"
            + (f"; --budget {plan.cost_needed:.2f}." if plan.price or plan.answer_price else ".")
        )
    return table, lines + _limit_in_words(plan)


def _unseen_in_words(plan: Plan) -> WrittenTable:
    """Word what is found without a pilot: a row a size of effect, a column a reader."""
    wide = plan.table.pivot(index="effect", columns="reader", values="to_detect")[list(plan.table.reader.unique())]
    each = zip(wide.index, wide.to_numpy(), strict=True)
    rows = [(f"{100 * effect:.0f} pp", *map(_number, images)) for effect, images in each]
    tests = f"q over all; power {plan.power:g}, level {plan.alpha:g}"
    return f"Images of each prompt that find a gap in one concept, {tests}", ["gap", *map(str, wide.columns)], rows


def _limit_in_words(plan: Plan) -> list[str]:
    """State where more of a concept's images alone, as ``--images`` draws them, do not reach a verdict."""
    limited = plan.limited
    if not len(limited):
        return []
    row = limited.sort_values("to_decide", kind="stable").iloc[-1]
    return [
        f"With --images alone the groups' images stay as many as they are, too few for "
        f"{wording.count(len(limited), 'concept')}: {row.concept} would then take {_number(row.groups_kept)} in place "
        f"of {_number(row.to_decide)}."
    ]


def _concepts_in_words(plan: Plan) -> WrittenTable:
    effect = f"to find an image part of {plan.effect:g}" if isfinite(plan.effect) else "to find that it leans"
    columns = ["concept", "image part in the pilot", "images now", effect]
    has_read = bool(plan.table.ratings.notna().any())
    if isfinite(plan.margin):
        columns += [f"to show balance within ±{plan.margin:g}, if the estimate stands", "for either"]
    if has_read:
        columns.append("ratings to decide")
    rows = []
    for row in plan.table.to_dict("records"):
        error = f" ± {wording.number(row['standard_error'], 3)}" if isfinite(row["standard_error"]) else ""
        cells = [str(row["concept"]), f"{wording.signed(row['estimate'], 3)}{error}", str(row["images"])]
        cells.append(_number(row["to_detect"]))
        if isfinite(plan.margin):
            cells += [_number(row["to_show_balance"]), _number(row["to_decide"])]
        if has_read:
            cells.append(_number(row["ratings"]))
        rows.append(cells)
    tests = f"power {plan.power:g} of its verdict, q ≤ {plan.alpha:g} over {wording.count(len(rows), 'concept')}"
    return f"Images a concept, {wording.IN_PROPORTION}; {tests}", columns, rows


def _number(value: float) -> str:
    if not isfinite(value):
        return "no number"
    return f"{value:,.0f}" if value <= MANY else f"more than {MANY:,}"
