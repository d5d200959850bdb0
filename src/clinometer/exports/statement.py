"""The outcome of a gate as an in-toto statement, whose subject is the model's files as they are signed.

The predicate is a Test Result (https://in-toto.io/attestation/test-result/v0.1): a test for each rule of the policy,
which passed where the rule holds, failed where it is broken, and is warned of where it is undecided. The numbers that
rules are about stand as annotations beside the file that holds them, a field that the statement's schema has for such.
The same run and the same policy give the same statement.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any, Final

from clinometer._messages import escaped, quoted, shortened
from clinometer.errors import InvalidInputError, RunCorruptError
from clinometer.exports.formats import ml_bom
from clinometer.gates.gate import gate as gate_of
from clinometer.gates.outcome import Gate, Outcome
from clinometer.gates.policy import canonical, policy_digest, policy_from_mapping
from clinometer.models.weights import model_digest
from clinometer.runs import Run
from clinometer.runs.record import registration_in_words

STATEMENT: Final = "https://in-toto.io/Statement/v1"
TEST_RESULT: Final = "https://in-toto.io/attestation/test-result/v0.1"
PAYLOAD: Final = "application/vnd.in-toto+json"
MOST_DIFFERENCES: Final = 20
"""Differences that a message lists; the rest is counted."""

_POLICY: Final = "policy"
_RUN: Final = "run.json"
_OF_RUN: Final = "the run: no folder of the model's files was given"
_OF_MODEL: Final = "the model's files, as OpenSSF model-signing digests them"
_RESULTS: Final = {Outcome.HOLDS: "PASSED", Outcome.UNDECIDED: "WARNED", Outcome.BROKEN: "FAILED"}
_NAMES: Final = ("rule", "metric", "component", "concept", "category", "group", "setting", "encoder", "outcome")
_NUMBERS: Final = ("value", "low", "high", "at_least", "at_most", "p", "p_holm", "n_target")


def statement_of(run: Run, gate: Gate, files: Mapping[str, str], model: Path | None = None) -> dict[str, Any]:
    """Build the statement of a run that was held to a policy.

    Parameters
    ----------
    files : the SHA-256 of the run's files by their names; ``run.json`` lists those of all others.
    model : the folder of the model's files. Its digest, as OpenSSF model-signing computes it, is the subject; without a
        folder, such as of a model behind an API, the subject is ``run.json``.

    Raises
    ------
    ModelError
        The folder is not that of the run's model, or cannot be digested: see
        :func:`clinometer.models.weights.model_digest`.
    """
    card = run.model_card
    if model is None:
        subject = {"name": _RUN, "digest": {"sha256": files[_RUN]}}
    else:
        subject = {"name": model.resolve().name, "digest": {"sha256": model_digest(model, card)}}
    policy = canonical(gate.policy)
    baseline = {"annotations": {"baseline": gate.runs[1].record["checksum"]}} if len(gate.runs) > 1 else {}
    about: dict[str, dict[str, Any]] = {
        _RUN: {
            "subject": _OF_RUN if model is None else _OF_MODEL,
            "model": {key: card.get(key) for key in ("name", "family", "fingerprint", "weights_sha256")},
            "lora": bool(card["settings"].get("lora")),
            "suite": run.suite.name,
            "suite_fingerprint": run.record["suite_fingerprint"],
            "seed": str(run.record["seed"]),
            "registration": registration_in_words(run.record) or "none",
            "versions": dict(run.record["versions"]),
        },
        "scores.parquet": {"numbers": list(_numbers(gate))},
    }
    tests: dict[Outcome, list[str]] = {outcome: [] for outcome in _RESULTS}
    for place, rule in enumerate(gate.rules, 1):
        tests[rule.outcome].append(f"rule {place}: {rule.name}")
    return {
        "_type": STATEMENT,
        "subject": [subject],
        "predicateType": TEST_RESULT,
        "predicate": {
            "result": _RESULTS[gate.outcome],
            "configuration": [
                {
                    "name": _POLICY,
                    "digest": {"sha256": policy_digest(gate.policy)},
                    "content": base64.b64encode(policy).decode(),
                    "mediaType": "application/json",
                    **baseline,
                },
                *(
                    {"name": name, "digest": {"sha256": digest}}
                    | ({"annotations": about[name]} if name in about else {})
                    for name, digest in files.items()
                ),
            ],
            "passedTests": tests[Outcome.HOLDS],
            "warnedTests": tests[Outcome.UNDECIDED],
            "failedTests": tests[Outcome.BROKEN],
        },
    }


def _numbers(gate: Gate) -> Iterator[dict[str, Any]]:
    """Return the numbers of a gate, without those that are not known; JSON has no infinite limit and no NaN."""
    for row in gate.table.to_dict("records"):
        yield {name: str(row[name]) for name in _NAMES if row[name]} | {
            name: float(row[name]) for name in _NUMBERS if isfinite(row[name])
        }


def unwrapped(document: Any) -> Any:
    """Return the statement of a signed envelope (DSSE, or a Sigstore bundle of one); other documents as they are.

    Whether the signature is genuine only its key tells.
    """
    envelope = document.get("dsseEnvelope", document) if isinstance(document, dict) else None
    if not isinstance(envelope, dict) or envelope.get("payloadType") != PAYLOAD:
        return document
    try:
        return json.loads(base64.b64decode(envelope["payload"], validate=True))
    except (KeyError, TypeError, ValueError, RecursionError):
        return None


def require_statement(
    run: Run,
    source: str | os.PathLike[str],
    statement: Mapping[str, Any],
    files: Mapping[str, str],
    *,
    baseline: Run | None,
    model: Path | None,
) -> str:
    """Refuse a statement that does not follow from a run, and from a model's folder if one is given.

    Returns
    -------
    A remark: whether the subject was compared with a folder.

    Parameters
    ----------
    files : the SHA-256 of the run's files as they are now.
    baseline : the run that the policy's differences are taken from, where they are.
    model : the folder; without it, a subject that is a model is taken as the statement names it.

    Raises
    ------
    InvalidInputError
        It is another kind of statement, or it needs a baseline, or its subject is no model and a folder is given.
    RunCorruptError
        It says something else than what follows; a line for each difference.
    ModelError
        The folder is not that of the run's model.
    """
    try:
        (subject,) = statement["subject"]
        described = {each["name"]: each for each in statement["predicate"]["configuration"]}
        policy = described[_POLICY]
        rules = json.loads(base64.b64decode(policy["content"], validate=True))
        checksum = policy.get("annotations", {}).get("baseline", "")
        is_kind = (statement["_type"], statement["predicateType"]) == (STATEMENT, TEST_RESULT)
        about_run = subject["name"] == _RUN
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error):
        is_kind = False
    if not is_kind:
        raise InvalidInputError.unsupported(
            f"{source}: an in-toto statement, but not one that clinometer export --evidence --policy writes; expected "
            f"the predicate {TEST_RESULT} with a policy"
        )
    if about_run and model is not None:
        raise InvalidInputError.unsupported(f"{source}: its subject is the run and no model; leave --model out")
    if checksum and (baseline is None or baseline.record.get("checksum") != checksum):
        raise InvalidInputError.mismatch(
            f"{source}: its rules are about differences from the run with the checksum {quoted(checksum, 12)}; give "
            "that run as --baseline"
        )
    judged = gate_of(run, policy_from_mapping(rules, source=f"{source}: policy"), baseline if checksum else None)
    expected = statement_of(run, judged, files, model)
    if not about_run and model is None:
        expected["subject"] = [subject]
        of_run = next(each for each in expected["predicate"]["configuration"] if each["name"] == _RUN)
        of_run["annotations"]["subject"] = _OF_MODEL
    require_same(source, statement, expected, run)
    if about_run:
        return "its subject is the run, not the files of a model"
    if model is None:
        return (
            "its subject was not compared with the files of a model; --model FOLDER does so, for "
            f"{quoted(subject['name'])}"
        )
    return f"its subject is the folder {model}, by the digest that model-signing signs"


def require_bom(run: Run, source: str | os.PathLike[str], bom: Mapping[str, Any]) -> None:
    """Refuse a CycloneDX BOM whose component of the run's model is not the one that follows from the run.

    The component may stand among others, such as in the BOM of a product.

    Raises
    ------
    InvalidInputError
        No component is of an audited model.
    RunCorruptError
        The component says something else than what follows; a line for each difference.
    """
    (expected,) = ml_bom(run)["components"]
    listed = bom.get("components")
    ours = [
        each
        for each in (listed if isinstance(listed, list) else [])
        if isinstance(each, dict) and "clinometer:run_checksum" in json.dumps(each.get("modelCard"))
    ]
    if not ours:
        raise InvalidInputError.unsupported(
            f"{source}: no component holds the verdicts of a run, as clinometer card --format cyclonedx writes them"
        )
    same = [each for each in ours if each.get("bom-ref") == expected["bom-ref"]] or ours
    require_same(source, same[0], json.loads(json.dumps(expected)), run)


def require_same(
    source: str | os.PathLike[str], found: Any, expected: Any, run: Run, *, beside: tuple[str, ...] = ()
) -> None:
    """Refuse a document that is not the expected one, ``beside`` some fields: a line for each difference, up to 20."""
    if lines := list(differences(found, expected, beside=beside)):
        shown = [f"{source}: {line}" for line in lines[:MOST_DIFFERENCES]]
        if more := len(lines) - len(shown):
            shown.append(f"{source}: and {more} more differences")
        way_out = (
            f"{source}: that is not what follows from {run.url}; it was changed, or is of another run or version: "
        )
        raise RunCorruptError("\n".join([*shown, f"{way_out}export it again"]))


def differences(found: Any, expected: Any, place: str = "", beside: tuple[str, ...] = ()) -> Iterator[str]:
    """Return where two documents differ, a phrase each; ``beside`` names what may differ."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for name in {**expected, **found}:
            if name not in beside:
                at = f"{place}.{escaped(shortened(name))}".lstrip(".")
                yield from differences(found.get(name), expected.get(name), at, beside)
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            yield from differences(one, other, f"{place}.{number}", beside)
    elif found != expected or isinstance(found, bool) != isinstance(expected, bool):
        yield f"{place} is {_shown(found)}, expected {_shown(expected)}"


def _shown(value: Any) -> str:
    """Return what a message shows of a part of a document."""
    if value is None:
        return "not there"
    return shortened(json.dumps(value, ensure_ascii=True), 100)
