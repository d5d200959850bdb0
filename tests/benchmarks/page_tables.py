"""The rates that docs/simulations.md is made of."""

from __future__ import annotations

from benchmarks.rates import all_results


def told(kind: str) -> list[tuple[str, str, float, float, float]]:
    """Rates of one kind: what, setting, nominal, measured, error."""
    return [
        (each.what, each.setting, each.nominal, each.rate, each.error) for each in all_results() if each.kind == kind
    ]
