"""The association study: T2IAT from the embeddings of a run."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from clinometer.metrics import Score
from clinometer.runs.embedded import embedded
from clinometer.runs.store import Run
from clinometer.studies.common import scores_table, suite_of
from clinometer.studies.study import Scored
from clinometer.studies.t2iat import AssociationDesign, AssociationEmbeddings, Density, DesignedTest, association_study
from clinometer.studies.t2iat.compare import compare_associations
from clinometer.suites import AssociationSuite


def score_association(run: Run, resamples: int) -> Scored:
    """Every number of the association study, and the distributions that its figures draw."""
    suite = suite_of(run, AssociationSuite)
    embeddings = [association_embeddings(run, suite, encoder) for encoder in run.encoder_cards]
    study = association_study(embeddings, association_design(suite), n_resamples=resamples, seed=run.record["seed"])
    return Scored(scores_table(study.scores), _curves(study.densities))


def association_design(suite: AssociationSuite) -> AssociationDesign:
    """The suite as the metrics see it: names, no prompts' texts."""
    return AssociationDesign(
        concepts={name: tuple(s.name for s in concept.stimuli) for name, concept in suite.concepts.items()},
        tests=tuple(DesignedTest(test.name, test.x, test.y) for test in suite.tests),
        a=suite.axis.a,
        b=suite.axis.b,
        margin=suite.margin,
    )


def compare_association(
    runs: tuple[Run, Run], encoders: Sequence[str], keep: Collection[int] | None, resamples: int
) -> list[Score]:
    """Differences between two runs, second minus first; with ``keep``, of pairs of images with these seeds."""
    suite = suite_of(runs[0], AssociationSuite)
    of_first, of_second = ([association_embeddings(run, suite, name, keep) for name in encoders] for run in runs)
    return compare_associations(
        of_first,
        of_second,
        association_design(suite),
        paired=keep is not None,
        n_resamples=resamples,
        seed=runs[0].record["seed"],
    )


def association_embeddings(
    run: Run, suite: AssociationSuite, encoder: str, keep: Collection[int] | None = None
) -> AssociationEmbeddings:
    """One encoder's vectors, by stimulus and attribute; with ``keep``, those of images with these seeds alone."""
    vectors, texts = embedded(run, encoder)
    width = next(iter(vectors.values())).shape[0] if vectors else 1
    by_group: dict[tuple[str, str], list[np.ndarray]] = {}
    for sample in run.plan:
        rows = by_group.setdefault((sample.concept, sample.group), [])
        if sample.id in vectors and (keep is None or sample.seed in keep):
            rows.append(vectors[sample.id])

    def stack(stimulus: str, group: str = "") -> np.ndarray:
        rows = by_group.get((stimulus, group), [])
        return np.stack(rows) if rows else np.zeros((0, width), np.float32)

    neutral_texts, attribute_texts = suite.neutral_texts(), suite.attribute_texts()
    read = bool(texts)  # an encoder without a text tower has none
    return AssociationEmbeddings(
        encoder=encoder,
        neutral={name: stack(name) for name in neutral_texts},
        attribute={key: stack(*key) for key in attribute_texts},
        neutral_texts={name: texts[text] for name, text in neutral_texts.items() if read},
        attribute_texts={
            key: np.stack([texts[text] for text in group_texts]) for key, group_texts in attribute_texts.items() if read
        },
    )


def _curves(densities: Sequence[Density]) -> pd.DataFrame:
    """Densities point by point, and the images beyond the whiskers."""
    columns = ("curve", "concept", "x", "y")
    rows = [
        row
        for density in densities
        for row in (
            *(("association_density", density.stimulus, x, y) for x, y in zip(density.x, density.y, strict=True)),
            *(("association_outlier", density.stimulus, x, 0.0) for x in density.outliers),
        )
    ]
    return pd.DataFrame(rows, columns=list(columns)).astype({"curve": str, "concept": str, "x": float, "y": float})
