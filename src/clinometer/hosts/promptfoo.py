"""An audit under promptfoo: ``call_api`` is a Python provider, and ``get_assert`` a Python assertion.

A row of the evaluation is a concept. The provider answers with the concept's number and interval and its images; the
first row makes the run, and the others read it. The assertion tests the concept against a rule of a gate.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import isfinite
from typing import Any, Final

from clinometer.api import Run, audit, gate
from clinometer.errors import ClinometerError, InvalidInputError
from clinometer.report.gallery import foremost_pictures
from clinometer.studies.reporting import page_and_view

PICTURES: Final = 8
"""Images that a row shows."""


def call_api(prompt: str, options: Mapping[str, Any], context: Mapping[str, Any]) -> dict[str, Any]:
    """Answer with the audit's numbers of the concept ``prompt``, its first images, and the place of the run.

    Parameters
    ----------
    prompt : the name of a concept of the suite.
    options : ``options["config"]`` has the arguments of :func:`clinometer.audit`, of which ``model`` and ``suite`` are
        expected. ``out`` is by default ``runs/MODEL-SUITE`` in the folder that promptfoo was started in; what is
        finished there is not done again.
    context : as promptfoo has it; nothing of it is read.

    Returns
    -------
    ``output``, words with the number and its interval; ``images``, as promptfoo shows them; ``metadata`` with the run's
    place. Or ``error``, in one line.
    """
    try:
        # promptfoo adds keys of its own
        run = audit(**{name: value for name, value in options.get("config", {}).items() if name not in OWN_KEYS})
        answers = _answers(run.url, run.record["checksum"])
        concept = prompt.strip()
        if concept not in answers:
            raise InvalidInputError.unknown_name(
                f"found {concept!r}, expected a concept of which there are images: {', '.join(answers)}"
            )
    except ClinometerError as error:
        return {"error": str(error)}
    return answers[concept] | {"metadata": {"run": run.url, "concept": concept}}


OWN_KEYS: Final = ("basePath", "pythonExecutable", "workers", "timeout")
"""Keys of a provider's ``config`` that belong to promptfoo itself."""


@lru_cache(maxsize=4)
def _answers(place: str, checksum: str) -> dict[str, dict[str, Any]]:
    """Return the answer for each concept of a run; ``checksum`` : of the run's record, for the cache."""
    run = Run(place)
    page, view = page_and_view(run)
    strips = foremost_pictures(view, page.verdicts(view), len(view.album.owned), PICTURES)
    return {
        strip["name"]: {
            "output": "\n".join(filter(None, (f"{strip['label']}: {strip['said']}", strip["score"]))),
            "images": [{"data": url, "mimeType": url[5:].partition(";")[0]}  # data:image/webp;base64,…
                       for url in (tile.picture.url for tile in strip["tiles"])],
        }
        for strip in strips
    }  # fmt: skip


def get_assert(output: str, context: Mapping[str, Any]) -> dict[str, Any]:
    """Test a concept against a rule of a gate, see :func:`clinometer.gate`.

    Parameters
    ----------
    output : of :func:`call_api`; nothing of it is read.
    context : ``context["config"]`` has the keys of a rule, such as ``metric``, ``component`` and ``within``;
        ``context["providerResponse"]["metadata"]`` is that of :func:`call_api`.

    Returns
    -------
    ``pass``, where the interval lies within the limits; ``score``, 1 or 0; ``reason``, which says whether the rule is
    broken or undecided; ``namedScores``, the number and the ends of its interval, as far as they are defined.
    """
    metadata = (context.get("providerResponse") or {}).get("metadata") or {}
    try:
        if "run" not in metadata:
            raise InvalidInputError.missing("the output is not of clinometer's provider: its metadata names no run")
        rule = {"concept": metadata["concept"], **context.get("config", {})}
        judged = gate(metadata["run"], {"rules": [rule]})
    except ClinometerError as error:
        return {"pass": False, "score": 0, "reason": str(error)}
    rows = judged.table.to_dict("records")
    reasons = [
        f"{row['rule']}, {row['concept']}: {row['value']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}] {row['reason']}"
        for row in rows
    ]
    ends = {"value": "", "low": "/low", "high": "/high"}
    numbers = {f"{row['component']}{end}": float(row[name]) for row in rows[:1] for name, end in ends.items()}
    return {
        "pass": judged.holds,
        "score": float(judged.holds),
        "reason": f"{judged.outcome}: {'; '.join(map(str.strip, reasons))}",
        "namedScores": {name: number for name, number in numbers.items() if isfinite(number)},
    }
