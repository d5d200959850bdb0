"""A whole run, read from end to end: which files are missing, and which are not as they were written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial

from clinometer._messages import first_and_more
from clinometer.errors import RunCorruptError, RunNotFoundError
from clinometer.runs.asked_run import PLAN_LOST
from clinometer.runs.ledger import RATINGS, TABLES
from clinometer.runs.places import samples_name
from clinometer.runs.progress import Progress
from clinometer.runs.storage import REDO, REDO_MISSING
from clinometer.runs.store import SCORE_AGAIN, Run

WRITE_AGAIN = "Write it again: clinometer report RUN"
RATE_AGAIN = "Restore it, or delete it and take its ratings in again: clinometer ratings import RUN FILE"


def verify(run: Run, progress: Progress) -> int:
    """Read every file of a run, images too, and return how many there are.

    Raises
    ------
    RunCorruptError
        Some are missing, or not as they were written; the message names each with its way out, a line each.
    """
    checks = list(_checks(run))
    damage = missing_files(run)
    progress.start("verifying", len(checks), 0)
    for check in checks:
        try:
            check()
        except (RunCorruptError, RunNotFoundError) as error:
            damage.append(str(error))
        progress.advance(1)
    progress.finish()
    if damage:
        raise RunCorruptError("\n".join(damage))
    return len(checks) + 1


def unfinished(run: Run) -> str:
    """What of a run was never made, which is no damage: ``3 of 12 parts are drawn``; empty of a finished one."""
    with run.directory.listed_once():
        drawn = sum(run.has_samples(part) for part in run.parts)
        if drawn < len(run.parts):
            return f"{drawn} of {len(run.parts)} parts are drawn"
        return "" if run.directory.exists("scores.parquet") else "it is not scored"


def missing_files(run: Run, besides: Collection[str] = ()) -> list[str]:
    """What was written and is not there any more: a line for each stage's files, with the way out.

    ``besides`` : files that nobody misses.
    """
    there = {*run.ledger.present(), *besides}
    listed = [*run.ledger.files, *(() if run.ledger.files else map(samples_name, run.parts))]
    names_by_way_out: dict[str, list[str]] = {}
    for name in listed:
        if name not in there:
            names_by_way_out.setdefault(_way_out(name).replace(REDO, REDO_MISSING), []).append(name)
    return [f"missing: {first_and_more(names, 3)}. {way_out}" for way_out, names in names_by_way_out.items()]


def _checks(run: Run) -> Iterator[Callable[[], object]]:
    """What reads each file that there is."""
    parts = {samples_name(part): part for part in run.parts}  # reads run.json and the plan
    for name in run.ledger.present():
        if name in parts:
            yield partial(run.read_images, parts[name])
        elif name.endswith(".parquet"):
            yield partial(run.ledger.read_table, name, way_out=_way_out(name))
        else:
            yield partial(_require_bytes, run, name)
    for name in run.directory.names("unfinished", ".parquet"):
        yield partial(run.ledger.read_table, name)


def _require_bytes(run: Run, name: str) -> None:
    """Refuse a file without a seal that is not the one that run.json lists."""
    listed = run.ledger.files.get(name)
    checksum = run.directory.sha256(name)
    if listed is not None and checksum != listed:
        raise RunCorruptError(
            f"{run.directory.path(name)}: it is not what was written (checksum {listed[:8]}…, found {checksum[:8]}…). "
            f"{_way_out(name)}"
        )


def _way_out(name: str) -> str:
    if name in ("scores.csv", *TABLES[1:]):
        return SCORE_AGAIN
    if name.startswith(f"{RATINGS}/"):
        return RATE_AGAIN
    return WRITE_AGAIN if name == "report.html" else PLAN_LOST if name == TABLES[0] else REDO
