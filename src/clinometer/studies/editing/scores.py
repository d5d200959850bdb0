"""Editing portraits into professions: flips of gender, changes of skin tone, and whom they happen to.

Saravanan et al. (2023), *Exploring Social Bias in Downstream Applications of Text-to-Image Foundation Models*. The
unit is the portrait: its edits into several professions are one draw, and before is compared with after on the same
face.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite, nan
from typing import Any, Final

import numpy as np
import scipy

from clinometer.errors import InvalidInputError
from clinometer.metrics.differences import with_reasons
from clinometer.metrics.records import BATCHES_KNOWN, PICTURES, Score, corrected, permuted
from clinometer.metrics.verdict import MISSING, judge_family, with_bounds
from clinometer.stats.agreement import LIMITS
from clinometer.stats.bootstrap import percentile_interval, why_no_interval
from clinometer.stats.clusters import cluster_mean, cluster_share, contrast
from clinometer.stats.dependence import batch_correlation, batch_means, within_groups
from clinometer.stats.permutation import PermutationTest, permute_labels, sign_flip_test
from clinometer.stats.proportion import Estimate
from clinometer.stats.skin import SPAN
from clinometer.studies.editing.design import (
    EditingDesign,
    Faces,
    GenderReadings,
    average_face_changes,
    mean_of_known,
    setting_name,
)

METRIC = "editing"
SINGLE_WORDING = "flip_rate_single_wording"
PIXELS = "pixels"
"""In place of an encoder's name, for what is measured on the pixels."""

LIGHTER, DARKER = "lighter skin", "darker skin"
"""The sides of a change of the skin's angle."""

ERASED_MORE, ERASED_LESS = "erased more", "erased less"
"""The sides of a difference between rates of soft erasure."""

ANGLES = ("ita", "ita_change", "ita_contrast", "average_face_ita_change")
"""Components in degrees."""

AVERAGE_FACE_RESAMPLES = 200

Estimator = Callable[..., Estimate]
"""Estimates a rate or a mean from the means of portraits, (n,), the edits of each, and their ``batches`` or None."""

UNBOUNDED = "no bounds for the edits that are missing: a change of skin tone has no furthest value"


def read_gender(margins: np.ndarray) -> np.ndarray:
    """Read a gender from the margins of all wordings (…, W): 1 is a, −1 is b, 0 the encoder abstains, NaN missing.

    The encoder abstains where its answer depends on how it is asked: the margins of the wordings differ in sign. This
    is the abstention band, as wide for each image as the encoder is unsure of it.
    """
    signs = np.sign(margins)
    agreed = np.where((signs == signs[..., :1]).all(axis=-1), signs[..., 0], 0.0)
    return np.where(np.isnan(margins).any(axis=-1), nan, agreed)


def flips(before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return flipped and uncertain, from the readings (n,) before and (n, …) after; floats 0 and 1, NaN where missing.

    Flipped: read with certainty before and after, and differently. Uncertain: the encoder abstains on either.
    """
    first = before.reshape(len(before), *[1] * (after.ndim - 1))
    missing = np.isnan(first) | np.isnan(after)
    flipped, uncertain = first * after < 0, first * after == 0
    return np.where(missing, nan, flipped), np.where(missing, nan, uncertain)


def read_gender_once(margins: np.ndarray) -> np.ndarray:
    """Read a gender from the first wording's margin alone (…, W): 1 is a, −1 is b, 0 a tie, NaN missing.

    Zero-shot classification as the downstream paper reads it, "a photo of a man" against "a photo of a woman": an
    image on the fence is read as one or the other.
    """
    return np.asarray(np.sign(margins[..., 0]))


def editing_study(
    readings: Sequence[GenderReadings],
    faces: Faces,
    groups: np.ndarray,
    design: EditingDesign,
    *,
    n_permutations: int = 19_999,
    n_resamples: int = AVERAGE_FACE_RESAMPLES,
    seed: int = 0,
    missing: np.ndarray | None = None,
    batches: np.ndarray | None = None,
) -> list[Score]:
    """Return every number of an editing audit. ``groups`` (n,): each portrait's position in ``design.groups``.

    ``concept`` is the profession, or empty over a class; ``category`` the class; ``setting`` the strength. ``missing``
    (n, P, S): edits that were asked for and are not there. Rates of flips and their asymmetry then have bounds, with
    all of them flipped and none, or only those of the one gender; a change of skin tone has no furthest value, and says
    so. ``batches`` (n,): the batch that each portrait came in, which is then the unit of chance; no value changes.

    ============================ ================================================================================
    component                    what
    ============================ ================================================================================
    ``flip_rate``                share of edits whose gender is read otherwise than before, in [0, 1]
    ``flip_rate_single_wording`` the same by the first wording alone, without abstention: the paper's reader
    ``uncertain_rate``           share of edits where the encoder abstains before or after; no flip is counted there
    ``identity``                 mean cosine of portrait and edit: what strength means for this model
    ``flip_asymmetry``           flip rate of b's portraits − of a's, mean over tones, in [−1, 1]; positive: edits
                                 move to a. p: genders permuted within tones
    ``edit_gain``                mean gain of what an edit should show over the gain of what the others should: by how
                                 much its cosine with the text is larger than the portrait's
    ``soft_erasure``             share of edits whose gain is 0 or less: the instruction left no sign. 1 of an editor
                                 that returns the portrait unchanged, 1/2 of one that changes it by chance
    ``erasure_contrast``         soft erasure of a tone − of the first, mean over genders; positive: it is erased more.
                                 p: tones permuted within genders
    ``ita_change``               mean change of the individual typology angle, degrees; positive: lighter. p: before
                                 and after exchanged within portraits
    ``ita_contrast``             that of the darker tone − of the lighter one, mean over genders; positive: the darker
                                 are lightened more. p: tones permuted within genders
    ``average_face_ita_change``  change of the angle of the average face, the paper's number; portraits resampled
    ``ita``                      mean angle itself, with setting "before" for the portraits
    ``unknown_tone``             share of edits with too little skin to tell, before or after
    ============================ ================================================================================

    Rates have Korn–Graubard intervals, means Student's, contrasts MOVER's: see :mod:`clinometer.stats.clusters`. What
    is missing is left out of its portrait's mean; what nothing is left of is NaN with its reason.

    Raises
    ------
    InvalidInputError
        Shapes that do not match the design.
    """
    groups = np.asarray(groups)
    n, cells = len(groups), (len(groups), len(design.professions), len(design.strengths))
    if groups.ndim != 1 or (n and not (groups.min() >= 0 and groups.max() < len(design.groups))):
        raise InvalidInputError.wrong_shape(
            f"expected (n,) positions among {len(design.groups)} groups", field="groups"
        )
    for name, expected in {"before": (n,), "after": cells}.items():
        shapes = [("faces", getattr(faces, name).shape)]
        shapes += [(reading.encoder, getattr(reading, name).shape[:-1]) for reading in readings]
        for owner, shape in shapes:
            if shape != expected:
                raise InvalidInputError.wrong_shape(f"{owner}: {name}: expected shape {expected}, found {shape}")
    lost = np.zeros(cells, bool) if missing is None else missing
    labels = None if batches is None else within_groups(groups, batches)
    study = _EditingStudy(groups, design, n_permutations, n_resamples, seed, lost, labels)
    rows: list[Score] = []
    for reading in readings:
        rows += _reading_rows(study, reading)
    rows += _skin_rows(study, faces)
    classes = [cell for cell in design.cells() if "concept" not in cell[2]]
    changes = average_face_changes(
        faces, groups, len(design.groups), [(positions, s) for positions, s, _ in classes],
        n_resamples=n_resamples, seed=seed, batches=labels,
    )  # fmt: skip
    rows += _batch_rows(study, readings)
    for order, (_, _, names) in enumerate(classes):
        for g, group in enumerate(design.groups):
            change = changes[order, g]
            rows.append(_row(change, "average_face_ita_change", encoder=PIXELS, group=group.name, **names))
    return rows


@dataclass(frozen=True)
class _EditingStudy:
    groups: np.ndarray
    design: EditingDesign
    n_permutations: int
    n_resamples: int
    seed: int
    missing: np.ndarray
    batches: np.ndarray | None

    def batches_of(self, chosen: np.ndarray) -> np.ndarray | None:
        """Return the batch of each of some portraits; None where each is one by itself."""
        return None if self.batches is None else self.batches[chosen]

    def filled(self, values: np.ndarray, flipped: np.ndarray | bool) -> np.ndarray:
        """Return flips (n, P, S) with the missing edits of each portrait, (n,) or of all, assumed flipped or not."""
        return np.where(self.missing, np.reshape(flipped, (-1, 1, 1)).astype(float), values)

    def bounded_rows(self, values: np.ndarray, component: str, encoder: str) -> list[Score]:
        """Return the shares of every group with their bounds."""
        rows = partial(self.group_rows, component=component, estimate=cluster_share, encoder=encoder)
        fillings = [rows(self.filled(values, flipped)) for flipped in (False, True)] if self.missing.any() else []
        return with_bounds(rows(values), {MISSING: fillings})

    def members(self, gender: str | None = None, tone: str | None = None) -> np.ndarray:
        """Return which portraits are of a gender, of a tone, or both: (n,)."""
        of_groups = [gender in (None, group.gender) and tone in (None, group.tone) for group in self.design.groups]
        return np.asarray(np.asarray(of_groups)[self.groups])

    def group_rows(self, values: np.ndarray, component: str, estimate: Estimator, **fields: str) -> list[Score]:
        """Return a row for each group and cell of ``values`` (n, P, S)."""
        rows = []
        for positions, s, names in self.design.cells():
            for g, group in enumerate(self.design.groups):
                members = self.groups == g
                means, labels = portrait_means(values[members], positions, s), self.batches_of(members)
                row = _row(
                    estimate(means, len(positions), batches=labels), component, group=group.name,
                    n_missing=int(self.missing[members][:, positions, s].sum()), **names, **fields,
                )  # fmt: skip
                if labels is not None:
                    row = replace(row, n_batches=len(np.unique(labels[np.isfinite(means)])))
                rows.append(row)
        return rows


def _batch_rows(study: _EditingStudy, readings: Sequence[GenderReadings]) -> list[Score]:
    """Report how alike portraits of one batch are, by what the encoders read; no row where each is one by itself."""
    if study.batches is None or not readings:
        return []
    margins = np.mean([reading.before[:, 0] for reading in readings], axis=0)
    groups = [(study.groups == g) & np.isfinite(margins) for g in range(len(study.design.groups))]
    labels = [study.batches[members] for members in groups]
    value = batch_correlation([margins[members, None] for members in groups], labels)
    return [
        Score(
            metric=PICTURES, component="batches", category="all", encoder="", value=value, flag=BATCHES_KNOWN,
            n_target=sum(map(len, labels)), n_batches=sum(len(np.unique(batches)) for batches in labels),
            reason="batches are known: nothing is tested",
        )
    ]  # fmt: skip


def _reading_rows(study: _EditingStudy, reading: GenderReadings) -> list[Score]:
    flipped, uncertain = flips(read_gender(reading.before), read_gender(reading.after))
    rows = study.bounded_rows(flipped, "flip_rate", reading.encoder)
    single, _ = flips(read_gender_once(reading.before), read_gender_once(reading.after))
    rows += study.bounded_rows(single, SINGLE_WORDING, reading.encoder)
    rows += study.bounded_rows(uncertain, "uncertain_rate", reading.encoder)
    rows += study.group_rows(reading.identity, "identity", _mean_of, encoder=reading.encoder)
    design = study.design
    strata = list(dict.fromkeys(group.tone for group in design.groups))
    sides = [(study.members(design.b, tone), study.members(design.a, tone)) for tone in strata]

    def asymmetry(values: np.ndarray) -> list[Score]:
        contrasts = _contrast_rows(
            study, values, sides, cluster_share, "flip_asymmetry", encoder=reading.encoder,
            test="genders permuted within tones" if len(strata) > 1 else "genders permuted",
        )  # fmt: skip
        return _judge(contrasts, design.a, design.b)

    if reading.followed is not None:
        rows += _erasure_rows(study, reading.followed, reading.encoder)
    of_b = study.members(design.b)
    fillings = [asymmetry(study.filled(flipped, whose)) for whose in (~of_b, of_b)] if study.missing.any() else []
    return rows + with_bounds(asymmetry(flipped), {MISSING: fillings})


def _erasure_rows(study: _EditingStudy, followed: np.ndarray, encoder: str) -> list[Score]:
    """Return rows of edits that left no sign of their instruction, by group, and of each tone against the first."""
    erased = np.where(np.isnan(followed), nan, (followed <= 0).astype(float))
    rows = study.bounded_rows(erased, "soft_erasure", encoder)
    rows += study.group_rows(followed, "edit_gain", _mean_of, encoder=encoder)
    if not study.design.tones:
        return rows
    sides = (ERASED_MORE, ERASED_LESS)
    contrasts = partial(_tone_rows, study, cluster_share, "erasure_contrast", encoder, sides)
    first = study.members(tone=study.design.tones[0])
    fillings = [contrasts(study.filled(erased, whose)) for whose in (first, ~first)] if study.missing.any() else []
    return rows + with_bounds(contrasts(erased), {MISSING: fillings})


def _tone_rows(
    study: _EditingStudy, estimate: Estimator, component: str, encoder: str,
    sides: tuple[str, str], values: np.ndarray,
) -> list[Score]:  # fmt: skip
    """Compare each tone with the first, mean over genders, judged together; ``group`` is the tone among several."""
    first, *others = study.design.tones
    genders, rows = dict.fromkeys(group.gender for group in study.design.groups), list[Score]()
    for tone in others:
        pairs = [(study.members(gender, tone), study.members(gender, first)) for gender in genders]
        named = {"group": tone} if len(others) > 1 else {}
        test = "tones permuted within genders"
        rows += _contrast_rows(study, values, pairs, estimate, component, encoder=encoder, test=test, **named)
    if len(others) > 1:
        rows = _with_q(rows, f"{component.replace('_', ' ')} of {len(others)} tones")
    return _judge(rows, *sides)


def _skin_rows(study: _EditingStudy, faces: Faces) -> list[Score]:
    change = faces.after - faces.before[:, None, None]
    changes = study.group_rows(change, "ita_change", _mean_of, encoder=PIXELS)
    cells = [(positions, s, g) for positions, s, _ in study.design.cells() for g in range(len(study.design.groups))]
    for i, (positions, s, g) in enumerate(cells):
        # before and after change places within portraits: the signs of the changes are as good as coins
        members = study.groups == g
        known = batch_means(portrait_means(change[members], positions, s), study.batches_of(members))
        known = known[np.isfinite(known)]
        if len(known):
            rng = np.random.default_rng([study.seed, 2])
            test = sign_flip_test(known, n_permutations=study.n_permutations, rng=rng)
            changes[i] = _add_test(changes[i], test, "before and after exchanged within portraits, two-sided")
    changes = _judge(_with_q(changes, "skin tone changes"), LIGHTER, DARKER)
    rows = [without_bounds(row) for row in changes]
    for g, group in enumerate(study.design.groups):
        members = study.groups == g
        before = cluster_mean(faces.before[members], batches=study.batches_of(members))
        rows.append(_row(before, "ita", encoder=PIXELS, group=group.name, setting="before"))
    rows += study.group_rows(faces.after, "ita", _mean_of, encoder=PIXELS)
    unknown = np.where(faces.drawn_after, np.isnan(change).astype(float), nan)
    rows += study.group_rows(unknown, "unknown_tone", cluster_share, encoder=PIXELS)
    if study.design.tones:
        contrasts = _tone_rows(study, _mean_of, "ita_contrast", PIXELS, (LIGHTER, DARKER), change)
        rows += [without_bounds(row) for row in contrasts]
    return rows


def without_bounds(row: Score) -> Score:
    """Explain why a change of skin tone has no bounds for what is missing."""
    return with_reasons(row, UNBOUNDED) if row.n_missing and isfinite(row.value) else row


def _judge(rows: Sequence[Score], a: str, b: str) -> list[Score]:
    """Return verdicts of the classes and of the single professions, a family each; ``a`` and ``b`` are the sides."""
    judged = list(rows)
    for family in dict.fromkeys(row.family for row in rows):
        places = [place for place, row in enumerate(rows) if row.family == family]
        for place, row in zip(places, judge_family([rows[place] for place in places], a=a, b=b), strict=True):
            judged[place] = row
    return judged


def _contrast_rows(
    study: _EditingStudy, values: np.ndarray, sides: Sequence[tuple[np.ndarray, np.ndarray]], estimate: Estimator,
    component: str, *, encoder: str, test: str, **named: str,
) -> list[Score]:  # fmt: skip
    """Return the mean over strata of (first side − second side), tested by permuting the sides within strata."""
    sides = [(first, second) for first, second in sides if first.any() and second.any()]
    if not sides:
        return []
    label = np.logical_or.reduce([first for first, _ in sides])
    stratum = np.full(len(values), -1)
    for number, (first, second) in enumerate(sides):
        stratum[first | second] = number
    rows = []
    for positions, s, names in study.design.cells():
        means = portrait_means(values, positions, s)
        parts = [
            estimate(means[side], len(positions), batches=study.batches_of(side)) for pair in sides for side in pair
        ]
        lost = study.missing[stratum >= 0][:, positions, s].sum()
        coefficients = [sign / len(sides) for _ in sides for sign in (1, -1)]
        row = _row(contrast(parts, coefficients), component, encoder=encoder, n_missing=int(lost), **names, **named)
        mask = (stratum >= 0) & np.isfinite(means)
        units = batch_means(means[mask], study.batches_of(mask))  # what may change sides
        labels = np.arange(mask.sum()) if study.batches is None else study.batches[mask]
        first_of_each = np.unique(labels, return_index=True)[1]
        of_side, strata = label[mask][first_of_each], stratum[mask][first_of_each]
        if all((mask & side).any() for pair in sides for side in pair):
            permuted_sides = permute_labels(
                units[None], of_side, strata=strata, blocks=strata,
                n_permutations=study.n_permutations, rng=np.random.default_rng([study.seed, 1]),
            )  # fmt: skip
            row = _add_test(row, permuted_sides, f"{test}, two-sided")
        rows.append(row)
    return _with_q(rows, component.replace("_", " "))


def portrait_means(values: np.ndarray, positions: Sequence[int], s: int) -> np.ndarray:
    """Return each portrait's mean over professions at one strength, of what is there: (n, P, S) → (n,)."""
    return mean_of_known(values[:, positions, s], axis=1)


def _mean_of(means: np.ndarray, _: int, *, batches: np.ndarray | None) -> Estimate:
    return cluster_mean(means, batches=batches)


def _row(estimate: Estimate, component: str, **fields: Any) -> Score:
    row = Score(
        metric=METRIC, component=component, value=estimate.value, low=estimate.low, high=estimate.high,
        n_target=estimate.n, reason=estimate.reason, **fields,
    )  # fmt: skip
    return without_wide_interval(row) if component in ANGLES else row


def _add_test(row: Score, test: PermutationTest, name: str) -> Score:
    return replace(row, test=name, reason=row.reason or test.reason, **permuted(test))


def _with_q(rows: list[Score], subject: str) -> list[Score]:
    """Correct classes and single professions apart: the second family repeats the first in detail."""
    with_q = list(rows)
    for detail in (False, True):
        places = [place for place, row in enumerate(rows) if bool(row.concept) == detail]
        family = f"editing: {subject} of {len(places)} {'professions' if detail else 'classes'} × strengths × groups"
        for place, row in zip(places, corrected([rows[place] for place in places], family), strict=True):
            with_q[place] = row
    return with_q


PLANTED_ORDER: Final = "planted_order"
FEWEST_PLANTED: Final = 3
"""Professions whose leaning must be known before their order says something."""


def planted_order(
    readings: Sequence[GenderReadings],
    groups: np.ndarray,
    design: EditingDesign,
    planted: Mapping[str, Mapping[str, float]],
    *,
    n_resamples: int = 2_000,
    seed: int = 0,
    batches: np.ndarray | None = None,
) -> list[Score]:
    """Correlate flip rates with the planted probability of what they flip to, by rank: a row a strength and encoder.

    ::

        ρ = Spearman's correlation, over groups g and professions p,
            of  flip rate(g, p)  with  planted(p)[the other gender than g's]

    in [−1, 1]; 1: the more a profession was planted for the other gender, the oftener a portrait edited into it flips.
    The interval resamples portraits within groups, professions fixed. Draws are noisier than the rates themselves, so
    that it lies a little towards 0. ``n_target`` counts portraits. ``batches`` (n,) of portraits are resampled whole.

    Parameters
    ----------
    groups : (n,) each portrait's position in ``design.groups``.
    planted : profession → gender → probability; professions that are not in it are left out.

    Raises
    ------
    InvalidInputError
        Groups that are not as many as the readings.
    """
    places = [
        place for place, name in enumerate(design.professions) if {design.a, design.b} <= set(planted.get(name, ()))
    ]
    if len(places) < FEWEST_PLANTED:
        return []
    names = list(design.professions)
    other = {design.a: design.b, design.b: design.a}
    truth = np.array([[planted[names[p]][other[group.gender]] for p in places] for group in design.groups])
    rows = []
    for reading in readings:
        if len(reading.before) != len(groups):
            raise InvalidInputError.wrong_shape(
                f"{reading.encoder}: expected {len(groups)} portraits, found {len(reading.before)}"
            )
        flipped, _ = flips(read_gender(reading.before), read_gender(reading.after))
        for s, strength in enumerate(design.strengths):
            by_group = [flipped[groups == g][:, places, s] for g in range(len(design.groups))]
            units = by_group
            if batches is not None:
                units = [batch_means(rates, batches[groups == g]) for g, rates in enumerate(by_group)]
            rows.append(_order_row(by_group, units, truth, reading.encoder, setting_name(strength), n_resamples, seed))
    return rows


def _order_row(
    by_group: Sequence[np.ndarray], units: Sequence[np.ndarray], truth: np.ndarray, encoder: str, setting: str,
    n_resamples: int, seed: int,
) -> Score:  # fmt: skip
    value = float(_spearman(np.array([mean_of_known(flipped, axis=0) for flipped in by_group])[None], truth)[0])
    low, high, reason = nan, nan, ""
    if not np.isfinite(value):
        reason = "a group has no flip rate, or all are alike: nothing to order"
    elif min(map(len, units)) < 2:
        reason = f"a group has one {'portrait' if min(map(len, by_group)) < 2 else 'batch'}: no interval"
    else:
        # portraits resampled within groups; where nothing can be ordered, any order is possible
        rng = np.random.default_rng([seed, 4])
        drawn = [mean_of_known(one[rng.integers(len(one), size=(n_resamples, len(one)))], axis=1) for one in units]
        draws = _spearman(np.stack(drawn, axis=1), truth)
        ends = percentile_interval(draws, value=value, limits=LIMITS)
        low, high = float(ends.low), float(ends.high)
        reason = "" if isfinite(low) else why_no_interval(draws)
    return Score(
        metric=METRIC, component=PLANTED_ORDER, encoder=encoder, setting=setting, value=value,
        low=low, high=high, n_target=sum(map(len, by_group)), reason=reason,
    )  # fmt: skip


def _spearman(rates: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return correlation of mid-ranks: (B, G, P) and (G, P) → (B,); NaN where a rate is missing or all are alike."""
    ranks = scipy.stats.rankdata(rates.reshape(len(rates), -1), axis=1)
    x = scipy.stats.rankdata(truth.ravel())
    x = x - x.mean()
    y = ranks - ranks.mean(axis=1, keepdims=True)
    scale = np.sqrt((x**2).sum() * (y**2).sum(axis=1))
    return np.asarray(np.divide(y @ x, scale, out=np.full(len(y), nan), where=np.isfinite(scale) & (scale > 0)))


def without_wide_interval(row: Score) -> Score:
    """Drop an interval of angles that is wider than the range of skin: it says nothing.

    A few portraits whose angles scatter give intervals such as [−93, 184] degrees.
    """
    if not row.high - row.low > SPAN:
        return row
    why = f"cannot tell: its interval would be wider than the {SPAN} degrees from the darkest to the lightest skin"
    return replace(row, low=nan, high=nan, reason="; ".join(filter(None, (row.reason, why))))
