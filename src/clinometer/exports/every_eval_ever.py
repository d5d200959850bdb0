"""``every-eval-ever``: the aggregate record of Every Eval Ever, schema 0.3.0.

What was not measured, or rests on too few images, is left out: the schema knows no reason.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final

from clinometer.exports.format import Format, measured_verdicts, require_some
from clinometer.exports.model_cards import CardDetails, card_input, is_served
from clinometer.report.model_card.content import one_line
from clinometer.report.rows import Row
from clinometer.report.verdicts import Verdicts
from clinometer.runs import Run

SCHEMA: Final = "0.3.0"
"""The version of Every Eval Ever's schema."""


def every_eval_ever(run: Run, said: CardDetails) -> dict[str, Any]:
    """Return a run as an aggregate record of Every Eval Ever: each verdict with its interval, n, and the run's hashes.

    A score that leans is best at 0 and its sign names a side; the schema knows only that lower or higher is better, so
    ``lower_is_better`` is said of its size, and ``metric_parameters`` say so.
    """
    record, card, shown = run.record, run.model_card, card_input(run)
    now, name = time.time(), str(card["name"])
    served = is_served(card)
    is_ours = record["origin"] == "generated" and not served
    hashes = {
        "suite_fingerprint": record["suite_fingerprint"],
        "run_checksum": record["checksum"],
        "scores_sha256": run.directory.sha256("scores.parquet"),
    }
    data = {"dataset_name": run.suite.name, "source_type": "other", "additional_details": hashes}
    if said.benchmark:
        data |= {"source_type": "hf_dataset", "hf_repo": said.benchmark, "hf_split": "test"}
    encoders = {f"encoder {key}": each["fingerprint"] for key, each in shown.report.encoder_cards.items()}
    return {
        "schema_version": SCHEMA,
        "evaluation_id": f"{run.suite.name}/{name.replace('/', '_')}/{now:.0f}",
        "evaluation_timestamp": record["created"],
        "retrieved_timestamp": f"{now:.0f}",
        "source_metadata": {
            "source_name": "clinometer",
            "source_type": "evaluation_run",
            "source_organization_name": said.by or "not stated",
            "evaluator_relationship": "other",
        },
        "eval_library": {
            "name": "clinometer",
            "version": record["versions"]["clinometer"],
            "additional_details": {key: str(value) for key, value in record["versions"].items()} | encoders,
        },
        "model_info": {
            "name": name,
            "id": name,
            "additional_details": {
                "deployment_type": "externally_managed" if served else "self_deployed" if is_ours else "unknown",
                "model_availability": "open_weights" if is_ours and card["weights_sha256"] else "unknown",
                "family": str(card["family"]),
                "fingerprint": str(record["model"]["fingerprint"]),
                **{key: str(card[key]) for key in ("revision", "weights_sha256") if card.get(key)},
            },
        },
        "evaluation_results": [
            _result(run, verdicts, row, data, shown.command) for verdicts, row in measured_verdicts(shown)
        ],
    }  # fmt: skip


def _result(run: Run, verdicts: Verdicts, row: Row, data: Mapping[str, Any], command: str) -> dict[str, Any]:
    low, high = row.ends(verdicts.over)
    least, most = verdicts.reach or (None, None)
    resamples = run.record["options"].get("resamples")
    interval = {
        "confidence_interval": {
            "lower": float(low), "upper": float(high), "confidence_level": 0.95, "method": f"over {verdicts.over}",
        },
        "num_samples": int(row.n_target),
        **({"num_bootstrap_samples": resamples} if resamples else {}),
    }  # fmt: skip
    numbers = {key: repr(float(getattr(row, key))) for key in ("p", "q") if isfinite(getattr(row, key))}
    return {
        "evaluation_result_id": "/".join(
            filter(None, (row.metric, row.component, row.concept, row.group, row.setting))
        ),
        "evaluation_name": f"{run.suite.name}: {verdicts.name(row)}",
        "source_data": dict(data),
        "evaluation_timestamp": run.record["created"],
        "metric_config": {
            "evaluation_description": one_line(f"{verdicts.title}: {verdicts.meaning}"),
            "metric_id": f"clinometer.{row.metric}.{row.component}",
            "metric_name": verdicts.title,
            "metric_parameters": {"ideal": 0, "lower_is_better_of": "the size, without the sign"},
            "lower_is_better": True,
            "score_type": "continuous",
            "min_score": least,
            "max_score": most,
        },
        "score_details": {
            "score": float(row.value),
            "details": {"verdict": verdicts.verdict(row), "test": row.test, "encoder": row.encoder, **numbers},
            **({"uncertainty": interval} if isfinite(low) and isfinite(high) else {}),
        },
        "generation_config": {"generation_args": {"execution_command": command}},
    }


def _write(runs: Sequence[Run], details: CardDetails) -> str:
    record = every_eval_ever(runs[0], details)
    require_some(record["evaluation_results"], runs[0])
    return json.dumps(record, indent=2, ensure_ascii=False) + "\n"


FORMAT: Final = Format("every-eval-ever", _write, takes=("benchmark", "by"))
