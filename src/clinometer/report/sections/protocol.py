"""What the paper prescribes, where the run departs from it, and what the paper leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clinometer.report import wording
from clinometer.report.view import View


def protocol(view: View) -> dict[str, Any] | None:
    """The prescription and the departures; None of a run that was not put under a protocol."""
    prescription, departures = view.report.suite.protocol, view.report.departures
    if prescription is None or departures is None:
        return None
    return {
        "paper": prescription.paper,
        "prescribed": prescription.lines(),
        "departures": departures,
        "open": [(choice.option, choice.taken) for choice in prescription.unsaid],
        "decisions": prescription.decisions,
    }


def protocol_in_short(departures: Sequence[Mapping[str, str]] | None) -> str:
    """``"the paper's, with 2 departures: steps, encoder"``; empty of a run without a protocol."""
    if departures is None:
        return ""
    options = ", ".join(departure["option"] for departure in departures)
    return (
        f"the paper\u2019s, with {wording.count(len(departures), 'departure')}: {options}"
        if options
        else ("the paper\u2019s, without departures")
    )
