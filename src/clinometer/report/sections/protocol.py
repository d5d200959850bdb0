"""What the paper prescribes, where the run departs from it, and what the paper leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clinometer.report import wording
from clinometer.report.view import View


def protocol(view: View) -> dict[str, Any] | None:
    """The prescription and the departures; None of a run that was not put under a protocol."""
    held, departures = view.report.suite.protocol, view.report.departures
    if held is None or departures is None:
        return None
    return {
        "paper": held.paper,
        "prescribed": held.lines(),
        "departures": departures,
        "open": [(each.option, each.taken) for each in held.unsaid],
        "decisions": held.decisions,
    }


def protocol_in_short(departures: Sequence[Mapping[str, str]] | None) -> str:
    """``"the paper's, with 2 departures: steps, encoder"``; empty of a run without a protocol."""
    if departures is None:
        return ""
    options = ", ".join(each["option"] for each in departures)
    return (
        f"the paper\u2019s, with {wording.count(len(departures), 'departure')}: {options}"
        if options
        else ("the paper\u2019s, without departures")
    )
