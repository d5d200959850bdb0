"""``cyclonedx``: an ML-BOM of CycloneDX 1.6 (ECMA-424), the model as a component with its verdicts in ``modelCard``."""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from clinometer.exports.format import Format
from clinometer.exports.model_cards import REPOSITORY, card_input, judged
from clinometer.report.model_card.content import one_line
from clinometer.runs import Run

_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def ml_bom(run: Run) -> dict[str, Any]:
    """Return a bill of materials of the audited model alone, CycloneDX 1.6 (ECMA-424), with its verdicts.

    Each verdict is a performance metric with its ``confidenceInterval``; the schema has no field for the verdict
    itself, q and the reason for a number that is missing, which are properties of the model card. The component's hash
    is that of its weights, where they are known, so that a BOM of the product that contains the model can refer to it.
    The same run gives the same document.
    """
    record, card, shown = run.record, run.model_card, card_input(run)
    metrics, properties = list[dict[str, Any]](), list[dict[str, str]]()
    for verdicts, row in judged(shown):
        low, high = row.ends(verdicts.over)
        kind = f"{row.metric}.{row.component}"
        part = "/".join(filter(None, (row.concept or row.category, row.group, row.setting)))
        if row.defined:
            interval = {"lowerBound": repr(float(low)), "upperBound": repr(float(high))}
            metrics.append(
                {"type": kind, "value": repr(float(row.value)), **({"slice": part} if part else {})}
                | ({"confidenceInterval": interval} if isfinite(low) and isfinite(high) else {})
            )
        parts = [verdicts.verdict(row), f"n {row.n_target}", *([f"q {row.q!r}"] if isfinite(row.q) else [])]
        name = f"clinometer:verdict:{kind}{f':{part}' if part else ''}"
        properties.append({"name": name, "value": one_line("; ".join([*parts, *filter(None, [row.reason])]))})
    audited = {
        "suite": run.suite.name, "suite_fingerprint": record["suite_fingerprint"], "run_checksum": record["checksum"],
        "scores_sha256": run.directory.sha256("scores.parquet"), "seed": str(record["seed"]), "command": shown.command,
        **{f"encoder:{name}": each["fingerprint"] for name, each in shown.report.encoder_cards.items()},
    }  # fmt: skip
    name, revision, weights = str(card["name"]), card.get("revision"), str(card.get("weights_sha256") or "")
    on_hub = REPOSITORY.fullmatch(name) and revision
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, str(record['checksum']))}",
        "version": 1,
        "metadata": {
            "timestamp": record["created"],
            "tools": {"components": [
                {"type": "application", "name": "clinometer", "version": record["versions"]["clinometer"]}
            ]},
        },
        "components": [
            {
                "type": "machine-learning-model",
                "bom-ref": f"model-{record['model']['fingerprint']}",
                "name": name,
                **({"version": str(revision)} if revision else {}),
                **({"hashes": [{"alg": "SHA-256", "content": weights}]} if _SHA256.fullmatch(weights) else {}),
                **({"purl": f"pkg:huggingface/{name}@{revision}"} if on_hub else {}),
                "modelCard": {
                    "modelParameters": {
                        "modelArchitecture": str(card["family"]),
                        "inputs": [{"format": "text"}],
                        "outputs": [{"format": "image"}],
                    },
                    "quantitativeAnalysis": {"performanceMetrics": metrics},
                    "properties": [
                        *({"name": f"clinometer:{key}", "value": value} for key, value in audited.items()),
                        *properties,
                    ],
                },
            }
        ],
    }  # fmt: skip


FORMAT: Final = Format(
    "cyclonedx", lambda runs, details: json.dumps(ml_bom(runs[0]), indent=2, ensure_ascii=False) + "\n"
)
