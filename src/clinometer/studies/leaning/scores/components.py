"""Rows of MCAS and its parts, per target: by each encoder, over encoders, and of the audited model itself.

See decision 14.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import isfinite, nan

import numpy as np

from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART, TEXT_PART
from clinometer.metrics.records import MEAN, OWN_TEXT, PRIOR, Score, corrected
from clinometer.stats.agreement import kendall_tau_b
from clinometer.stats.permutation import (
    EXACT_LIMIT,
    MEET_IN_THE_MIDDLE_LIMIT,
    PermutationTest,
    permute_labels,
    split_test,
)
from clinometer.stats.splits import count_splits
from clinometer.studies.leaning.scores.contrasts import contrast_tests, pair_weights, text_tests
from clinometer.studies.leaning.scores.design import (
    Design,
    DrawSettings,
    EncoderEmbeddings,
    LabelPool,
    LeaningStudy,
    Pools,
    layout_of,
    pools_of,
)
from clinometer.studies.leaning.scores.rows import Basis, Contrast, contrast_family, contrast_rows
from clinometer.studies.leaning.scores.views import EncoderView, ItemMeans, linear_views

SENSITIVITY = "sensitivity"


def mcas_rows(study: LeaningStudy, view: EncoderView, components: Collection[str] = tuple(COMPONENTS)) -> list[Score]:
    """Report II, ITP, ITA, TT, the image part II + ITA, the text part ITP + TT and MCAS of every target, tested.

    With ``components``, some of these alone.

    The two parts and MCAS of the average view have verdicts. The unit of chance is the image, but for the text part,
    which holds none of the target: there it is the words and the attribute prompts (:func:`text_tests`). TT alone has
    no interval and no p over images, only the stimulus interval and ``p_labels``.
    """
    design, settings, rows = study.design, study.settings, list[Score]()
    labels = label_tests(
        view.items, pools_of(design, study.layout), settings.n_permutations, settings.rng("labels")
    )  # fmt: skip
    for component in components:
        modalities = COMPONENTS[component]
        contrast = Contrast(
            pair_weights(study, modalities, *study.pair),
            Basis(modalities, study.pair),
            {"metric": "mcas", "component": component},
            (design.a, design.b),
            [_label_fields(study, component, labels[component], t) for t in study.target_numbers],
        )
        family, judged = f"mcas: {component} over {len(design.targets)} targets", view.encoder == MEAN
        if component == TEXT_PART:
            tests = text_tests(study, view, contrast.weights)
            own = contrast_family(
                study, view, [contrast], family, margin=design.margin, judged=judged, tests=[tests], fewest=0
            )
            rows += [replace(row, n_decide=0) for row in own]  # no number of images decides what holds none
        elif component == "tt":
            of_words = contrast_tests(study, view, contrast.weights).over_words_alone
            rows += corrected(contrast_rows(study, view, contrast, of_words), family)
        else:
            judged = judged and component in (IMAGE_PART, "mcas")
            rows += contrast_family(study, view, [contrast], family, margin=design.margin, judged=judged)
    return rows


def _label_fields(study: LeaningStudy, component: str, test: PermutationTest | None, t: int) -> dict[str, object]:
    if test is None or not isfinite(test.p_value[t]):
        return {}
    pools = pools_of(study.design, study.layout)
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
        own = [row for row in rows if (row.metric, row.component) == ("mcas", component)]
        scores = np.array([[row.value for row in own if row.encoder == encoder] for encoder in encoders])
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
    settings = DrawSettings(n_resamples, n_permutations, seed, confidence)
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
    settings = DrawSettings(n_resamples, n_permutations, seed, confidence)
    rows = [row for prior in priors for row in _rows(prior, design, settings, PRIOR, "ii")]
    return [replace(row, reason=_of_embeddings(row.reason), test=_of_embeddings(row.test)) for row in rows]


def _rows(
    encoder: EncoderEmbeddings, design: Design, settings: DrawSettings, metric: str, component: str
) -> list[Score]:
    """Report one component alone, under a metric of its own."""
    design = replace(design, third=None)
    layout = layout_of([encoder], design)
    study = LeaningStudy(design, layout, settings)
    rows = [row for row in mcas_rows(study, linear_views([encoder], study)[1]) if row.component == component]
    return [replace(row, metric=metric, family=row.family.replace("mcas", metric, 1)) for row in rows]


def _of_embeddings(words: str) -> str:
    return words.replace(" image", " prior embedding", 1)


def label_tests(
    items: ItemMeans, pools: Pools, n_permutations: int, rng: np.random.Generator
) -> Mapping[str, PermutationTest | None]:
    """Test every component of every target, two-sided; None where a group has no item, or none is asked for.

    Every prompt of a group weighs alike. MCAS and its two parts are tested under independent relabellings of prompts
    and of words, drawn together.
    """
    prompt_rng, word_rng, joint_rng = rng.spawn(3)
    tests: dict[str, PermutationTest | None] = dict.fromkeys(COMPONENTS)
    if n_permutations == 0:
        return tests
    pooled = {}
    for pool, values, names, child in (
        (pools.prompts, items.images, ("ii", "itp"), prompt_rng),
        (pools.words, items.words, ("ita", "tt"), word_rng),
    ):
        if not pool.complete:
            continue
        pooled[names] = pool.means(values)
        test = _pool_test(np.concatenate(pooled[names]), pool, n_permutations, child)
        tests |= _apart(test, names)
    if len(pooled) == 2:
        summed = [np.concatenate([of.sum(axis=0), *of]) for of in pooled.values()]
        joint = _joint_test(summed, pools, n_permutations, joint_rng)
        tests |= _apart(joint, ("mcas", IMAGE_PART, TEXT_PART))
    return tests


def least_p_value(test: PermutationTest, pools: Sequence[LabelPool]) -> float:
    """Return the smallest two-sided p that so many relabellings allow.

    Of a full count one is as extreme as can be, or two where its mirror image is a relabelling too.
    """
    if not test.exact:
        return 1 / (1 + test.n_splits)
    return (2 if all(pool.mirrored for pool in pools) else 1) / test.n_splits


def _joint_test(
    values: Sequence[np.ndarray], pools: Pools, n_permutations: int, rng: np.random.Generator
) -> PermutationTest:
    """Permute prompts and words together: all relabellings while they are few, else some.

    A qualifier needs no more digits, and counting millions for every target takes longer than all else.
    """
    of_prompts, of_words = pools.prompts, pools.words
    labels = np.concatenate([of_prompts.in_a, of_words.in_a])
    strata = np.concatenate([of_prompts.strata, np.full(len(of_words.in_a), of_prompts.strata.max() + 1)])
    return permute_labels(
        np.concatenate(values, axis=1),
        labels,
        blocks=np.repeat([0, 1], [len(of_prompts.in_a), len(of_words.in_a)]),
        strata=strata,
        n_permutations=n_permutations,
        exact_limit=EXACT_LIMIT if count_splits(labels, strata) <= EXACT_LIMIT else 0,
        rng=rng,
    )


def _pool_test(values: np.ndarray, pool: LabelPool, n_permutations: int, rng: np.random.Generator) -> PermutationTest:
    """Count the splits of one stratum by its two halves while it is small; else list, match or draw them."""
    if len(pool.in_a) <= MEET_IN_THE_MIDDLE_LIMIT and (pool.strata == pool.strata[0]).all():
        return split_test(values, pool.in_a)
    return permute_labels(values, pool.in_a, strata=pool.strata, n_permutations=n_permutations, rng=rng)


def _apart(test: PermutationTest, names: Sequence[str]) -> dict[str, PermutationTest | None]:
    """Cut one record of the tests of several components, which saw the same relabellings, into one of each."""
    n = len(test.p_value) // len(names)
    return {
        name: replace(
            test,
            statistic=test.statistic[rows],
            p_value=test.p_value[rows],
            standard_error=test.standard_error[rows],
            p_low=test.p_low[rows],
            p_high=test.p_high[rows],
        )
        for i, name in enumerate(names)
        for rows in (slice(i * n, (i + 1) * n),)
    }
