"""Both downstream audits on the reference model, small enough to be killed and begun again."""

from __future__ import annotations

from typing import Any

from clinometer.suites import Suite, load_suite


def editing() -> Suite:
    suite = load_suite("downstream/editing-reference").with_options(images=2)
    return suite.model_copy(update={"strengths": (1.0,)})


def classification() -> Suite:
    suite = load_suite("downstream/classification-reference").with_options(images=4)
    return suite.model_copy(update={"noise_samples": (1, 6)})


SETTINGS: dict[str, dict[str, Any]] = {
    "editing": {"steps": 2, "batch_size": 8, "device": "cpu"},
    "classification": {"batch_size": 8, "device": "cpu", "portraits": "reference"},
}
