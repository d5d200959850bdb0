"""A run directory, opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clinometer.pipeline.results import run_repr_html
from clinometer.runs.run import Run as StoredRun
from clinometer.studies import study_of

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.exports.paper import Figures


_NAMES = ("metric", "component", "concept", "category", "group", "setting", "encoder")
"""The columns that name a row of scores."""


class Run(StoredRun):
    """A run directory, opened: ``run.scores``, ``run.samples``, ``run.suite``, ``run.model_card``, …"""

    def _repr_html_(self) -> str:
        return run_repr_html(
            suite=self.suite,
            model_card=self.model_card,
            samples=self.drawn.whole([]),
            scores=self.scores if self.is_scored else None,
            planned=len(self.plan),
            place=self.directory.shown,
        )

    @property
    def verdicts(self) -> pd.DataFrame:
        """The headline: the rows of ``scores`` that the report judges, with all their columns.

        These are a row a concept, of its image part, where a suite compares two groups; with axes a row for each
        concept and axis, of other studies a row for each test, contrast or share. What has no score has no row; what
        has one and no verdict says why in ``reason``. The verdicts on all other numbers are in ``all_verdicts``.
        """
        page, scores = study_of(self.suite).page(self.suite), self.scores
        view = page.view.of_scores(self.suite, scores)
        judged = {tuple(getattr(row, name) for name in _NAMES) for each in page.verdicts(view) for row in each.rows}
        rows = scores[scores.metric.isin({metric for metric, *_ in judged})]
        names = zip(*(rows[name].fillna("").astype(str) for name in _NAMES), strict=True)
        return rows[[name in judged for name in names]].reset_index(drop=True)

    @property
    def all_verdicts(self) -> pd.DataFrame:
        """Whatever was judged: the rows of ``scores`` that have a verdict, of every metric, component and encoder."""
        scores = self.scores
        return scores[scores.verdict.fillna("") != ""].reset_index(drop=True)

    @property
    def figures(self) -> Figures:
        """The figures of the report, as matplotlib's: ``run.figures.leaning()``; ``dir(run.figures)`` names all."""
        from clinometer.exports.paper import Figures  # an audit draws none

        return Figures(self)

    def to_latex(self, metric: str) -> str:
        """Write the numbers of a metric, such as ``"mcas"``, as a LaTeX table with the rules of booktabs.

        Raises
        ------
        InvalidInputError, RunError
            The run has no such metric; it is not scored.
        """
        from clinometer.exports.paper import metric_latex

        return metric_latex(self.scores, metric)
