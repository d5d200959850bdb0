"""What people said of a paper's pictures, compared with the machine's scores of the same."""

from __future__ import annotations

from math import isfinite, nan

import pandas as pd

from clinometer.papers.paper import PrintedTable
from clinometer.report import wording
from clinometer.stats.agreement import Agreement, kendall_tau_b

FEWEST = 3
"""Concepts whose order can be compared."""


def correlations(part: PrintedTable, by_model: dict[str, pd.DataFrame]) -> list[str]:
    """Describe the rank agreement of the two columns that a table correlates, one sentence per model.

    Where nobody has rated our pictures, the paper's own fractions stand in for them, which are of other pictures.
    """
    if part.correlated is None:
        return []
    sentences = []
    for model, cells in by_model.items():
        people = cells[cells.column == part.correlated.people].set_index("concept")
        machine = cells[cells.column == part.correlated.machine].set_index("concept").run
        rated = people.run.notna().sum() >= FEWEST
        tau = tau_of(people.run if rated else people.paper, machine)
        whose = "people’s fractions" if rated else "the paper’s fractions, which are of other pictures,"
        estimate = wording.with_interval(tau.value, tau.low, tau.high) if isfinite(tau.value) else tau.reason
        sentences.append(
            f"{f'{model}: ' if len(by_model) > 1 else ''}Kendall’s τ of {whose} and the machine’s scores of these "
            f"pictures, over {wording.count(tau.n, 'concept')}: {estimate}. The paper prints {part.correlated.printed}."
        )
        if not rated:
            sentences.append(
                "Nobody has rated these pictures yet: clinometer reproduce names the task that shows them."
            )
    return sentences


def tau_of(people: pd.Series, machine: pd.Series) -> Agreement:
    """Return Kendall's τ-b of two columns over the concepts that have both, with its jackknife interval."""
    both = pd.DataFrame({"people": people, "machine": machine}).dropna()
    if len(both) < FEWEST:
        return Agreement(nan, nan, nan, len(both), reason="fewer than three concepts have both")
    return kendall_tau_b(both.people.to_numpy(), both.machine.to_numpy())
