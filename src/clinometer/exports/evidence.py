"""A dated record of what a run found and what a policy makes of it, as OSCAL Assessment Results.

OSCAL (the Open Security Controls Assessment Language of NIST) is how auditors exchange the results of assessments. Here
each verdict is an observation, each rule of a policy a finding, and the run's files are named with their hashes. A
record is evidence: it says what was measured, and never that a law is kept.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from math import isfinite
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_URL, UUID, uuid5

import pandas as pd
import yaml

from clinometer._csv import csv_text
from clinometer.errors import InvalidInputError, RunCorruptError
from clinometer.exports.statement import require_bom, require_same, require_statement, statement_of, unwrapped
from clinometer.gates.gate import gate as gate_of
from clinometer.gates.outcome import Gate, Outcome, RuleOutcome
from clinometer.gates.policy import policy_from_mapping
from clinometer.models.weights import model_digest
from clinometer.report import wording
from clinometer.report.page import Page
from clinometer.report.verdicts import Verdicts
from clinometer.report.view import Row, View
from clinometer.runs import Directory, Run
from clinometer.runs.files import MOST_JSON
from clinometer.runs.record import package_versions, registration_in_words
from clinometer.studies.reporting import page_and_view

OSCAL: Final = "1.1.3"
NAMESPACE: Final = "urn:clinometer:evidence:1"
RECORD: Final = "assessment-results.json"
IN_TOTO: Final = "statement.json"
NO_RECORD: Final = (
    f"no record of a run, expected {RECORD} or {IN_TOTO} of clinometer export --evidence, or the BOM of "
    "clinometer card --format cyclonedx"
)
MALFORMED: Final = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError)
"""Errors raised by reading a document that does not have the expected shape."""
POLICY: Final = "policy"
BASELINE: Final = "baseline"
CLAUSES: Final = "clauses.csv"
HASHED: Final = ("run.json", "plan.parquet", "scores.parquet", "report.html")
"""Files of a run that a record names by the SHA-256 of their bytes; run.json lists the checksums of all."""

_STATES: Final = {
    Outcome.HOLDS: ("satisfied", "pass"),
    Outcome.BROKEN: ("not-satisfied", "fail"),
    Outcome.UNDECIDED: ("not-satisfied", "other"),
}


def write_evidence(
    run: Run,
    out: str | os.PathLike[str],
    gate: Gate | None = None,
    model: str | os.PathLike[str] | None = None,
) -> list[str]:
    """Write the record of a scored run, and the table of clauses that it may serve, into a folder.

    Parameters
    ----------
    gate : what became of a policy, whose rules are then the findings; without it there are observations alone.
    model : the folder of the model's files, which the statement is then about; else it is about the run.

    Returns
    -------
    Names of the files: ``assessment-results.json`` (OSCAL Assessment Results), ``clauses.csv`` and, of a policy,
    ``statement.json`` (an in-toto Test Result; :mod:`clinometer.exports.statement`).

    Raises
    ------
    RunError
        The run has no checksums, is damaged or is not scored; the folder cannot be written.
    InvalidInputError
        The folder is the run itself; a model is given and no policy.
    ModelError
        The model's folder is not that of the run's model, or cannot be digested.
    """
    if model is not None and gate is None:
        raise InvalidInputError.conflict(
            "a statement about it says what became of a policy; give one, or leave it out", field="model"
        )
    if run.unchecked:
        raise RunCorruptError(f"{run.url}: {run.unchecked}, so nothing can be signed for it; audit the model again")
    place = Directory(out)
    if place.place == run.directory.place:
        raise InvalidInputError.conflict(f"{place.shown}: this is the run itself; give another folder")
    place.require_place()
    table, record = _record(run, gate)
    statement = None if gate is None else statement_of(run, gate, _hashed(run), None if model is None else Path(model))
    place.write_bytes(RECORD, json.dumps(record, indent=2, ensure_ascii=False).encode() + b"\n")
    place.write_bytes(CLAUSES, csv_text(table).encode())
    if statement is None:
        return [RECORD, CLAUSES]
    place.write_json(IN_TOTO, statement)
    return [RECORD, CLAUSES, IN_TOTO]


def _hashed(run: Run) -> dict[str, str]:
    """Return the SHA-256 of the run's files that a record names."""
    return {name: run.directory.sha256(name) for name in HASHED if run.directory.exists(name)}


def _record(run: Run, gate: Gate | None) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Make the table of clauses and the record of a run."""
    page, view = page_and_view(run)
    facts = _facts(run, page.verdicts(view), gate)
    listed = yaml.safe_load((resources.files("clinometer.exports") / "clauses.yaml").read_text("utf-8"))
    as_of, clauses = str(listed["as_of"]), listed["clauses"]
    table = pd.DataFrame(
        [
            {key: str(clause[key]) for key in ("framework", "clause", "asks", "applies_from", "applies")}
            | {"as_of": as_of, "field": field, "shown": facts[field], "source": clause["source"]}
            for clause in clauses
            for field in clause["shown_by"]
        ]
    )
    dates = "; ".join(f"{each['framework']}, {each['clause']}: {each['applies']}" for each in clauses)
    applies = f"When they apply, as of {as_of} ({listed['dates_source']}): {dates}"
    controls = [clause["id"] for clause in clauses]
    return table, assessment_results(run, page, view, gate, facts, controls, applies)


def _facts(run: Run, quantities: Sequence[Verdicts], gate: Gate | None) -> dict[str, str]:
    """Return in words what each field of the table of clauses holds."""
    record = run.record
    rows = [row for verdicts in quantities for row in verdicts.rows]
    statuses = run.samples["status"].value_counts()
    lost = [f"{n:,} {status}" for status, n in statuses.items() if status != "ok"]
    return {
        "suite": run.suite.title,
        "suite_fingerprint": record["suite_fingerprint"],
        "model": f"{record['model']['name']} ({record['model']['family']}; {record['model']['fingerprint']})",
        "encoders": ", ".join(f"{name} ({card['fingerprint']})" for name, card in record["encoders"].items()) or "none",
        "seed": str(record["seed"]),
        "images": f"{statuses.get('ok', 0):,} ({run.suite.images_in_words()})",
        "missing_images": ", ".join(lost) or "none",
        "verdicts": "; ".join(
            f"{verdicts.title}: {wording.counted(verdicts.rows, verdicts.label)}" for verdicts in quantities
        ),
        "not_measured": wording.count(sum(wording.not_measured(row) for row in rows), "verdict"),
        "tests": "; ".join(sorted({row.test for row in rows if row.test})) or "none",
        "scores": f"scores.parquet, {len(run.scores):,} rows",
        "created": record["created"],
        "versions": ", ".join(f"{name} {version}" for name, version in record["versions"].items()),
        "checksum": record["checksum"],
        "registration": registration_in_words(record) or "none",
        "policy": "none" if gate is None else gate.policy.title or ", ".join(rule.name for rule in gate.rules),
        "outcome": "none" if gate is None else gate.outcome.value,
    }


def assessment_results(
    run: Run,
    page: Page[Any],
    view: View,
    gate: Gate | None,
    facts: Mapping[str, str],
    controls: Iterable[str],
    applies: str,
) -> dict[str, Any]:
    """Build OSCAL Assessment Results of a run: observations, findings, and the run's files with their hashes.

    Parameters
    ----------
    page, view : how the run's study shows it, and what it shows.
    facts : what is known of the run, by name; some are properties of the result.
    controls, applies : identifiers of the clauses for which the record may serve, and from when they apply.
    """
    base = uuid5(NAMESPACE_URL, f"{NAMESPACE}:{run.record['checksum']}")
    result = _result(run, page, view, gate, facts, base)
    result["reviewed-controls"] |= {
        "control-selections": [{"include-controls": [{"control-id": control} for control in controls]}],
        "remarks": applies,
    }
    now = result["end"]
    files = [
        {
            "uuid": str(uuid5(base, name)),
            "title": name,
            "rlinks": [{"href": name, "hashes": [{"algorithm": "SHA-256", "value": digest}]}],
        }
        for name, digest in _hashed(run).items()
    ]
    return {
        "assessment-results": {
            "uuid": str(uuid5(base, now)),
            "metadata": {
                "title": f"Bias audit of {run.record['model']['name']}",
                "last-modified": now,
                "version": package_versions()["clinometer"],
                "oscal-version": OSCAL,
                "remarks": "Evidence of what was measured; no claim of compliance.",
            },
            "import-ap": {"href": f"#{uuid5(base, 'run.json')}", "remarks": "What was asked is in run.json."},
            "results": [result],
            "back-matter": {"resources": files},
        }
    }


def _result(
    run: Run, page: Page[Any], view: View, gate: Gate | None, facts: Mapping[str, str], base: UUID
) -> dict[str, Any]:
    """Build the one result: what was looked at, every verdict, and what a policy makes of them."""
    card, model = run.record["model"], str(uuid5(base, "model"))
    created = datetime.fromisoformat(run.record["created"]).astimezone(UTC).isoformat("T", "seconds")
    shown = ("suite_fingerprint", "seed", "images", "missing_images", "registration", "checksum")
    of_every_verdict = {
        "subjects": [{"subject-uuid": model, "type": "component"}],
        "relevant-evidence": [{"href": f"#{uuid5(base, 'scores.parquet')}", "description": "A row of the scores."}],
        "collected": created,
    }
    result: dict[str, Any] = {
        "uuid": str(uuid5(base, "result")),
        "title": f"{card['name']} × {run.suite.title}",
        "description": page.finding(view),
        "start": created,
        "end": datetime.now(UTC).isoformat("T", "seconds"),
        "props": _props({name: facts[name] for name in shown}),
        "local-definitions": {
            "components": [
                {
                    "uuid": model,
                    "type": "software",
                    "title": card["name"],
                    "description": f"A text-to-image model: {card['family']}.",
                    "props": _props({"fingerprint": card["fingerprint"], "weights": card["weights_sha256"] or ""}),
                    "status": {"state": "operational"},
                }
            ]
        },
        "reviewed-controls": {
            "description": "Clauses for which this may serve as evidence; clauses.csv says what of it.",
        },
        "observations": [
            _observation(verdicts, row)
            | {"uuid": str(uuid5(base, f"{verdicts.title}/{row.concept}/{row.group}/{row.setting}"))}
            | of_every_verdict
            for verdicts in page.verdicts(view)
            for row in verdicts.rows
        ],
    }
    if gate is not None:
        result["findings"] = [_finding(base, rule, place, gate) for place, rule in enumerate(gate.rules)]
        # what the findings follow from, so that whoever has the run can derive them again
        rules = gate.policy.model_dump(mode="json", exclude_none=True)
        baseline = gate.runs[1].record["checksum"] if len(gate.runs) > 1 else ""
        result["props"] += _props({POLICY: json.dumps(rules, ensure_ascii=False), BASELINE: baseline})
    return result


def _observation(verdicts: Verdicts, row: Row) -> dict[str, Any]:
    """Write a verdict as an observation, its numbers to the last digit."""
    number = f"{verdicts.title} {verdicts.value(row)} {verdicts.interval(row)}".strip()
    numbers = {name: getattr(row, name) for name in ("value", "low", "high", "q")}
    return {
        "title": verdicts.name(row),
        "description": f"{verdicts.name(row)}: {number}: {verdicts.verdict(row)}",
        "props": _props(
            {"metric": row.metric, "component": row.component, "verdict": verdicts.verdict(row)}
            | {name: repr(float(value)) for name, value in numbers.items() if isfinite(value)}
            | {"images": f"{row.n_target:.0f}" if row.n_target else ""}
        ),
        "methods": ["TEST"],
        "types": ["finding"],
    }


def _finding(base: UUID, rule: RuleOutcome, place: int, gate: Gate) -> dict[str, Any]:
    """Return the outcome of a policy's rule in words."""
    state, reason = _STATES[rule.outcome]
    counts = ", ".join(f"{n} {outcome}" for outcome, n in rule.rows.outcome.value_counts().items())
    return {
        "uuid": str(uuid5(base, f"finding {place}")),
        "title": rule.name,
        "description": f"{rule.name}: {rule.outcome.value} ({counts}).",
        "target": {
            "type": "objective-id",
            "target-id": f"rule-{place + 1}",
            "title": gate.policy.title or rule.name,
            "status": {"state": state, "reason": reason, "remarks": rule.outcome.value},
        },
    }


def require_unchanged(
    run: Run, source: str | os.PathLike[str], baseline: Run | None = None, model: str | os.PathLike[str] | None = None
) -> str:
    """Refuse a run that is not the one of a record, and a record that does not follow from the run.

    What the record says is derived again, from the run and, of a policy about differences, the ``baseline``. It is an
    OSCAL record or an in-toto statement of :func:`write_evidence`, the statement perhaps within a signed envelope, or a
    CycloneDX BOM of :func:`clinometer.exports.formats.ml_bom`. With ``model``, a folder, the model's files must be
    those that the run, and the statement's subject, are of.

    Returns
    -------
    A remark on what was not looked at; may be empty.

    Raises
    ------
    InvalidInputError
        The file is no record of these kinds, or it needs a baseline.
    RunCorruptError
        A file of the run is missing, or is not the one that the record names; or the record says something else than
        what follows from the run.
    ModelError
        The folder does not hold the model's files.
    """
    found = _read_record(source)
    record, folder = unwrapped(found), None if model is None else Path(model)
    remark = "" if record is found else "whether the signature is genuine only its key tells; "
    if not isinstance(record, dict):
        raise InvalidInputError.not_found(f"{source}: {NO_RECORD}")
    if "predicateType" in record:
        files = _hashed(run)
        return remark + require_statement(run, source, record, files, baseline=baseline, model=folder)
    if record.get("bomFormat") == "CycloneDX":
        require_bom(run, source, record)
    else:
        _require_files(run, source, record)
        _require_derived(run, source, record, baseline)
    if folder is not None:
        model_digest(folder, run.model_card)
    return ""


def policy_of(source: str | os.PathLike[str]) -> Mapping[str, Any] | None:
    """Return the policy that a record holds; None of one without a policy, such as a BOM.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or is no record.
    """
    record = unwrapped(_read_record(source))
    try:
        if "predicateType" in record:
            described = {each["name"]: each for each in record["predicate"]["configuration"]}
            rules = base64.b64decode(described[POLICY]["content"], validate=True)
        elif "assessment-results" in record:
            props = record["assessment-results"]["results"][0]["props"]
            rules = {each["name"]: each["value"] for each in props}.get(POLICY, "null")
        else:
            return None
        found = json.loads(rules)
        return found if isinstance(found, dict) else None
    except MALFORMED as error:
        raise InvalidInputError.malformed(f"{source}: {NO_RECORD}") from error


def _read_record(source: str | os.PathLike[str]) -> Any:
    """Read a file of JSON, up to a limit."""
    try:
        with open(source, "rb") as file:
            content = file.read(MOST_JSON + 1)
    except OSError as error:
        raise InvalidInputError.cannot_read(source, error) from error
    if len(content) > MOST_JSON:
        raise InvalidInputError.too_many(f"{source}: more than {MOST_JSON >> 20} MiB; {NO_RECORD}")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError.malformed(f"{source}: {NO_RECORD}") from error


def _require_files(run: Run, source: str | os.PathLike[str], record: Mapping[str, Any]) -> None:
    """Refuse a run whose files are not those that an OSCAL record names."""
    try:
        found = record["assessment-results"]["back-matter"]["resources"]
        listed = {link["href"]: link["hashes"][0]["value"] for resource in found for link in resource["rlinks"]}
    except MALFORMED as error:
        raise InvalidInputError.malformed(f"{source}: {NO_RECORD}") from error
    for name, checksum in listed.items():
        if name not in HASHED:
            raise InvalidInputError.unknown_name(
                f"{source}: found the file {name!r}, expected one of {', '.join(HASHED)}"
            )
        if not run.directory.exists(name):
            raise RunCorruptError(f"{run.directory.path(name)}: the record names it, and it is not there")
        if (now := run.directory.sha256(name)) != checksum:
            raise RunCorruptError(
                f"{run.directory.path(name)}: it is not the one of the record (SHA-256 {str(checksum)[:8]}…, found "
                f"{now[:8]}…); it was changed or made again since"
            )


_OF_ITS_TIME: Final = ("uuid", "end", "last-modified", "version", "oscal-version")
"""What of a record follows from when it was written, and by which version."""


def _require_derived(run: Run, source: str | os.PathLike[str], record: Any, baseline: Run | None) -> None:
    """Refuse a record that is not the one that the run gives now, times and versions aside."""
    try:
        result = record["assessment-results"]["results"][0]
        properties = {each["name"]: each["value"] for each in result["props"]}
        policy = json.loads(properties[POLICY]) if POLICY in properties else None
        checksum = properties.get(BASELINE, "")
    except MALFORMED as error:
        raise InvalidInputError.malformed(f"{source}: {NO_RECORD}") from error
    if policy is None and "findings" in result:
        raise InvalidInputError.incomplete(
            f"{source}: it has findings without the policy that they follow from; export it again"
        )
    if checksum and (baseline is None or baseline.record.get("checksum") != checksum):
        raise InvalidInputError.mismatch(
            f"{source}: its findings are of differences from the run with the checksum {checksum[:12]}…; give that run "
            "as --baseline"
        )
    judged = None if policy is None else gate_of(run, policy_from_mapping(policy), baseline if checksum else None)
    expected = json.loads(json.dumps(_record(run, judged)[1]))
    require_same(source, record, expected, run, beside=_OF_ITS_TIME)


def _props(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [
        {"name": name.replace("_", "-"), "ns": NAMESPACE, "value": value.strip()}
        for name, value in values.items()
        if value.strip()
    ]
