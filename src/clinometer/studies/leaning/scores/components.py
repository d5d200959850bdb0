"""Rows of MCAS and its parts, per target: by each encoder, over encoders, and of the audited model itself.

And of what a concept's wording does to the image part: its variance by source, and whether a verdict hangs on it. See
decision 14.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import isfinite, nan
from typing import Final

import numpy as np

from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART, TEXT_PART
from clinometer.metrics.records import MEAN, OWN_TEXT, PRIOR, Score, corrected
from clinometer.metrics.verdict import FEWEST_IMAGES, LEVEL
from clinometer.stats.agreement import kendall_tau_b
from clinometer.stats.clusters import CrossedVariance, crossed_variance
from clinometer.stats.permutation import PermutationTest
from clinometer.studies.leaning.scores.contrasts import contrast_tests, label_tests, least_p_value, pools_of, text_tests
from clinometer.studies.leaning.scores.design import (
    Design,
    EncoderEmbeddings,
    ResamplingSettings,
    StudySetup,
    layout_of,
    pooled_encoders,
    unit_rows,
)
from clinometer.studies.leaning.scores.encoder_check import ReaderCheck
from clinometer.studies.leaning.scores.rows import contrast_family, contrast_rows, middle_rows, pair_contrast
from clinometer.studies.leaning.scores.views import EncoderView, linear_views

SENSITIVITY = "sensitivity"


def mcas_rows(setup: StudySetup, view: EncoderView, components: Collection[str] = tuple(COMPONENTS)) -> list[Score]:
    """Report II, ITP, ITA, TT, the image part II + ITA, the text part ITP + TT and MCAS of every target, tested.

    With ``components``, some of these alone.

    The two parts and MCAS of the average view have verdicts. The unit of chance is the image, but for the text part,
    which holds none of the target: there it is the words and the attribute prompts (:func:`text_tests`). TT alone has
    no interval and no p over images, only the stimulus interval and ``p_labels``.
    """
    design, settings, rows = setup.design, setup.settings, list[Score]()
    labels = label_tests(
        view.items, pools_of(design, setup.layout), settings.n_permutations, settings.rng("labels")
    )  # fmt: skip
    for component in components:
        of_labels = [_label_fields(setup, component, labels[component], t) for t in setup.target_numbers]
        names = {"metric": "mcas", "component": component}
        contrast = pair_contrast(setup, COMPONENTS[component], names, of_labels)
        family, judged = f"mcas: {component} over {len(design.targets)} targets", view.encoder == MEAN
        if component == TEXT_PART:
            tests = text_tests(setup, view, contrast.weights)
            text_rows = contrast_family(
                setup, view, [contrast], family, margin=design.margin, judged=judged, tests=[tests], fewest=0
            )
            rows += [replace(row, n_decide=0) for row in text_rows]  # no number of a concept's images decides it
        elif component == "tt":
            of_words = contrast_tests(setup, view, contrast.weights).over_words_alone
            rows += corrected(contrast_rows(setup, view, contrast, of_words), family)
        else:
            judged = judged and component in (IMAGE_PART, "mcas")
            rows += contrast_family(setup, view, [contrast], family, margin=design.margin, judged=judged)
    return rows


def pair_middle_rows(setup: StudySetup, view: EncoderView) -> list[Score]:
    """Report the groups' middle of II, ITA, the image part and MCAS, to which the texts add 0."""
    counts = [{"n_a": setup.layout.image_counts[setup.a], "n_b": setup.layout.image_counts[setup.b]}]
    components = ("ii", "ita", IMAGE_PART, "mcas")
    contrasts = [pair_contrast(setup, COMPONENTS[name], {"component": name}, counts) for name in components]
    return middle_rows(setup, view, contrasts)


def _label_fields(setup: StudySetup, component: str, test: PermutationTest | None, t: int) -> dict[str, object]:
    if test is None or not isfinite(test.p_value[t]):
        return {}
    pools = pools_of(setup.design, setup.layout)
    prompts = pools.prompts, f"attribute prompts permuted within {pools.within}"
    words = pools.words, "attribute words permuted over the pool"
    permuted = {"ii": [prompts], "itp": [prompts], "ita": [words], "tt": [words]}.get(component, [prompts, words])
    return {
        "p_labels": float(test.p_value[t]),
        "p_labels_least": least_p_value(test, [pool for pool, _ in permuted]),
        "labels_test": f"labels of {' and of '.join(what for _, what in permuted)}, {test.alternative}",
    }


def sensitivity_rows(rows: Sequence[Score], encoders: Sequence[str]) -> list[Score]:
    """Report for every component each encoder's size and its agreement with the others; nothing for a single encoder.

    ::

        size       mean_t |C_{e,t}|                            over the targets t that the encoder e can give
        agreement  τ_b(C_{e,·}, mean of C_{e',·} over e' ≠ e)   of the targets' order, in [−1, 1], jackknife interval
        spread     mean_t sd_e(C_{e,t})                        ddof 1; encoder ``"mean"``

    from the ``mcas`` rows. What an encoder cannot give (a text component of one that reads no text) is NaN with a
    reason, and is left out of the others' means.
    """
    if len(encoders) < 2:
        return []
    summaries, at_hand = [], "no interval: a summary of the targets at hand"
    for component in COMPONENTS:
        about = Score(metric=SENSITIVITY, component=component)
        component_rows = [row for row in rows if (row.metric, row.component) == ("mcas", component)]
        scores = np.array([[row.value for row in component_rows if row.encoder == encoder] for encoder in encoders])
        is_finite = np.isfinite(scores)
        for e, (encoder, values) in enumerate(zip(encoders, scores, strict=True)):
            size = np.abs(values[is_finite[e]])
            summaries.append(replace(
                about, setting="size", encoder=encoder, value=float(size.mean()) if len(size) else nan,
                n_target=len(size), reason=at_hand if len(size) else "the encoder does not give it",
            ))  # fmt: skip
            total = np.delete(np.where(is_finite, scores, 0.0), e, axis=0).sum(axis=0)
            n = np.delete(is_finite, e, axis=0).sum(axis=0)
            others = np.divide(total, n, out=np.full(total.shape, nan), where=n > 0)
            tau = kendall_tau_b(values, others)
            summaries.append(replace(
                about, setting="agreement", encoder=encoder, value=tau.value, low=tau.low, high=tau.high,
                n_target=tau.n, null=0.0, reason=tau.reason or "no stimulus interval: it is over targets",
            ))  # fmt: skip
        shared = [values[np.isfinite(values)] for values in scores.T]
        spreads = [float(values.std(ddof=1)) for values in shared if len(values) > 1]
        summaries.append(replace(
            about, setting="spread", value=float(np.mean(spreads)) if spreads else nan, n_target=len(spreads),
            reason=at_hand if spreads else "fewer than two encoders give it",
        ))  # fmt: skip
    return summaries


def own_text_rows(
    encoders: Sequence[EncoderEmbeddings],
    design: Design,
    *,
    n_resamples: int = 10_000,
    n_permutations: int = 9_999,
    seed: int = 0,
    confidence: float = 0.95,
) -> list[Score]:
    """Report TT of every target in each of the model's own text encoders: metric ``own_text``, component ``tt``.

    ::

        TT = mean_{a∈A} cos(w, a) − mean_{b∈B} cos(w, b)      w the target's text, A and B the attribute words

    The same number as ``mcas`` / ``tt``, in [−2, 2], positive towards A, with the same test over the words and the same
    stimulus interval. These encoders see no image, so no other component exists, and none of them enters the mean over
    the audit's encoders. ``q`` corrects over the targets, each encoder by itself.

    Raises
    ------
    InvalidInputError
        Embeddings that no cosine can take, or counts that do not match the design.
    """
    settings = ResamplingSettings(n_resamples, n_permutations, seed, confidence)
    return [row for encoder in encoders for row in _rows(encoder, design, settings, OWN_TEXT, "tt")]


def prior_rows(
    priors: Sequence[EncoderEmbeddings],
    design: Design,
    *,
    n_resamples: int = 10_000,
    n_permutations: int = 9_999,
    seed: int = 0,
    confidence: float = 0.95,
) -> list[Score]:
    """Report II of every target in the embeddings that the model's prior draws: metric ``prior``, component ``ii``.

    ::

        II = mean_{x∈X} (mean_{a∈A} cos(x, a) − mean_{b∈B} cos(x, b))

    with X the prior's embeddings of the target's prompt, A and B those of the attribute prompts: the same number as
    ``mcas`` / ``ii`` one stage earlier, before anything is decoded into an image. In [−2, 2], positive towards A.
    Interval and test are those of ``ii``, with embeddings in the place of images: resampled within their prompts,
    tested as images are. ``q`` corrects over the targets. No prior enters the mean over the audit's
    encoders.

    Parameters
    ----------
    priors : what a prior drew, as images; no texts.

    Raises
    ------
    InvalidInputError
        Embeddings that no cosine can take, or counts that do not match the design.
    """
    settings = ResamplingSettings(n_resamples, n_permutations, seed, confidence)
    rows = [row for prior in priors for row in _rows(prior, design, settings, PRIOR, "ii")]
    return [replace(row, reason=_of_embeddings(row.reason), test=_of_embeddings(row.test)) for row in rows]


def _rows(
    encoder: EncoderEmbeddings, design: Design, settings: ResamplingSettings, metric: str, component: str
) -> list[Score]:
    """Report one component alone, under a metric of its own."""
    design = replace(design, third=None)
    layout = layout_of([encoder], design)
    setup = StudySetup(design, layout, settings)
    rows = [row for row in mcas_rows(setup, linear_views([encoder], setup).by_encoder[0]) if row.component == component]
    return [replace(row, metric=metric, family=row.family.replace("mcas", metric, 1)) for row in rows]


def _of_embeddings(words: str) -> str:
    return words.replace(" image", " prior embedding", 1)


# --- the wording of a concept -----------------------------------------------------------------------------------------

WORDING: Final = "wording"
DEPENDS: Final = "depends on the wording"
"""The flag of the row of concept × wording, and of a concept, whose leaning is shown to change with the wording."""

BY_WORDING: Final = "by_wording"
SOURCES: Final = {
    "concept": "unit",
    "wording": "treatment",
    "concept_wording": "unit_treatment",
    "noise": "block",
    "image": "residual",
}
"""What a component is called, and in a crossed design in general."""

EXCHANGED: Final = "wordings exchanged within concept and noise"
FEW: Final = f"fewer than {FEWEST_IMAGES} noises of which every wording has an image"
OF_TWO: Final = "no interval: two of them tell too little of how far others lie apart"
NO_ERROR: Final = "no interval: too little of it to tell its error"
BY_PERMUTATION: Final = "no interval: the test is by permutation"


def image_part_direction(embeddings: EncoderEmbeddings, design: Design) -> np.ndarray | None:
    """Return d with ``image part of x = x̂ · d``; None of an encoder without images of one of the two groups.

    ::

        d = mean â − mean b̂ over the groups' attribute images, and the same over their words where it reads text
    """
    parts = []
    for group in (design.a, design.b):
        images = np.concatenate([unit_rows(x) for x in embeddings.group_images[group]])
        if not len(images):
            return None
        words = embeddings.group_words
        parts.append(images.mean(axis=0) + (unit_rows(words[group]).mean(axis=0) if words is not None else 0))
    return np.asarray(parts[0] - parts[1])


def wording_rows(
    readings: Mapping[str, Mapping[str, np.ndarray]],
    encoders: Sequence[EncoderEmbeddings],
    checks: Mapping[str, ReaderCheck],
    *,
    n_permutations: int = 9_999,
    seed: int = 0,
) -> list[Score]:
    """Split the variance of image parts over concepts, wordings and noises, and test what wordings do.

    ===================== ==========================================================================================
    component             value
    ===================== ==========================================================================================
    ``concept``           variance between concepts, over all wordings
    ``wording``           between wordings, alike in all concepts; with p
    ``concept_wording``   of what a wording does to one concept and not to another; with p. ``flag`` says where
                          q ≤ .05: then a verdict on a concept hangs on the wording
    ``noise``             between noises of a concept, alike in all its wordings
    ``image``             what is left: one image of one noise and one wording
    ``by_wording``        of a concept, between its wordings; p and q over the concepts
    ===================== ==========================================================================================

    What chance adds is subtracted from each, so that where there is nothing it is as often below 0 as above. There are
    rows of the average over encoders and of each. See :func:`clinometer.stats.clusters.crossed_variance`.

    ``readings`` : of each encoder and concept (wordings × noises), NaN where there is no image.
    """
    pooled = [encoders[i].encoder for i in pooled_encoders(encoders) if encoders[i].encoder in readings]
    views: dict[str, Mapping[str, np.ndarray]] = {}
    if pooled:
        first = readings[pooled[0]]
        views[MEAN] = {name: np.mean([readings[encoder][name] for encoder in pooled], axis=0) for name in first}
    rows = []
    for encoder, by_concept in (views | dict(readings)).items():
        split = crossed_variance(list(by_concept.values()), n_permutations=n_permutations, seed=seed)
        check = checks.get(encoder)
        reason = "" if check is None or check.reads else check.reason
        rows += _rows_of_a_view(encoder, by_concept, split, reason)
    return rows


def _rows_of_a_view(
    encoder: str, by_concept: Mapping[str, np.ndarray], split: CrossedVariance, unread: str
) -> list[Score]:
    def tested(row: Score, p: float) -> Score:
        if not isfinite(p):
            return row
        return replace(
            row, p=p, test=EXCHANGED, n_splits=split.n_permutations, p_method="sampled",
            p_error=float(np.sqrt(p * (1 - p) / split.n_permutations)),
        )  # fmt: skip

    usable = split.blocks[split.blocks >= 2]
    n_wordings = len(next(iter(by_concept.values())))
    few_of = {"wording": n_wordings == 2, "concept_wording": n_wordings == 2 and len(usable) == 2}
    over_all = []
    for name, source in SOURCES.items():
        part = split.components[source]
        row = Score(
            metric=WORDING, component=name, category="all", encoder=encoder, value=part.value, low=part.low,
            high=part.high, n_target=int(usable.sum()) * n_wordings,
            reason=split.reason or ("" if isfinite(part.low) else OF_TWO if few_of.get(name) else NO_ERROR),
        )  # fmt: skip
        over_all.append(tested(row, part.p_value))
    concepts = []
    for (name, reading), p, value, n in zip(
        by_concept.items(), split.unit_p, split.unit_variance, split.blocks, strict=True
    ):
        row = Score(
            metric=WORDING, component=BY_WORDING, concept=name, encoder=encoder, value=float(value),
            n_target=int(n) * len(reading), n_missing=int(np.isnan(reading).sum()),
            reason=BY_PERMUTATION if n >= 2 else FEW,
        )  # fmt: skip
        concepts.append(tested(row, float(p)))
    few = bool(len(usable)) and usable.min() < FEWEST_IMAGES
    family = f"{WORDING}: over {len(concepts)} concepts"
    judged = [
        _flag_wordings(row, few, unread) for row in corrected(over_all, f"{WORDING}: {WORDING} and concept × wording")
    ]
    own_rows = corrected(concepts, family)
    return judged + [_flag_wordings(row, row.n_target < FEWEST_IMAGES * n_wordings, unread) for row in own_rows]


def _flag_wordings(row: Score, few: bool, unread: str) -> Score:
    """Flag where a leaning is shown to change with the wording; never of an encoder that cannot read its images."""
    if row.component not in ("concept_wording", BY_WORDING) or not isfinite(row.q):
        return row
    if unread or few:
        return replace(row, reason=unread or FEW)
    return replace(row, flag=DEPENDS) if row.q <= LEVEL else row
