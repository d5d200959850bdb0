"""A whole run, read from end to end: which files are missing, and which are not as they were written."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from functools import partial

from clinometer._messages import first_and_more
from clinometer.errors import RunCorruptError, RunNotFoundError
from clinometer.runs.answers import READ_AGAIN, question_of
from clinometer.runs.ledger import COUNTS, RATINGS, READINGS, TABLES, embeddings_name, readings_name, samples_name
from clinometer.runs.plan import PLAN_LOST
from clinometer.runs.progress import Progress
from clinometer.runs.scores import SCORE_AGAIN
from clinometer.runs.storage import REDO, REDO_MISSING
from clinometer.runs.store import Run
from clinometer.runs.vectors import require_finished

WRITE_AGAIN = "Write it again: clinometer report RUN"
RATE_AGAIN = "Restore it, or delete it and take its ratings in again: clinometer ratings import RUN FILE"


def verify(run: Run, progress: Progress) -> int:
    """Read every file of a run, images too, and return how many there are.

    Of a run without checksums that says no more than that they can be read (``run.unchecked``); nor does it of some
    files that run.json does not list (:func:`unlisted`).

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


def require_foundation(run: Run, *, pixels: bool) -> None:
    """Refuse a run of which something that its numbers rest on is gone, or is not what was written.

    Every table is read, of images the ``pixels`` only where they are asked for. What was made of the numbers, such as
    the page, is not looked at.

    Raises
    ------
    RunCorruptError
        The message names the first such file, and how many there are.
    """
    unused = {embeddings_name(name) for name in (*run.encoders.dropped, *run.encoders.begun)}
    unused |= {readings_name(name) for name in run.readers.begun}
    with run.directory.listed_once():
        present, parts = list(run.ledger.present()), {samples_name(part): part for part in run.parts}
        besides = [name for name in {*present, *run.ledger.files} if name.rpartition("/")[0] in unused]
        damage = missing_files(run, besides=("scores.csv", "report.html", *besides))
        for encoder in run.encoder_cards if run.unchecked else ():  # of which run.json lists no files
            require_finished(run, encoder)
        for name in present:
            if name in besides or not name.endswith(".parquet"):
                continue
            try:
                if pixels and name in parts:
                    run.drawn.read(parts[name])
                else:
                    run.ledger.read_table(name, ["id"] if name in parts else None, way_out=_way_out(name))
            except (RunCorruptError, RunNotFoundError) as error:
                damage.append(str(error))
    if damage:
        more = f" And {len(damage) - 1} more: clinometer verify {run.url}" if damage[1:] else ""
        raise RunCorruptError(f"{run.url}: what its numbers rest on is gone, or has changed: {damage[0]}{more}")


def unlisted(run: Run) -> list[str]:
    """Files of which nothing says whether they are as they were written: no table, and not listed in run.json."""
    return [name for name in run.ledger.present() if not name.endswith(".parquet") and name not in run.ledger.files]


def unfinished(run: Run) -> str:
    """What of a run was never made, which is no damage: ``3 of 12 parts are drawn``; empty of a finished one."""
    with run.directory.listed_once():
        drawn = sum(run.drawn.has(part) for part in run.parts)
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
            yield partial(run.drawn.read, parts[name])
        elif name.startswith(f"{READINGS}/"):
            yield partial(_require_answers, run, name)
        elif name.endswith(".parquet"):
            yield partial(run.ledger.read_table, name, way_out=_way_out(name))
        else:
            yield partial(_require_bytes, run, name)
    for name in run.directory.names("unfinished", ".parquet"):
        yield partial(run.ledger.read_table, name)


def _require_answers(run: Run, name: str) -> None:
    """Refuse answers that are not what was written, or were given to other words than the run's question makes."""
    table = run.ledger.read_table(name, way_out=READ_AGAIN)
    card = json.loads((table.schema.metadata or {}).get(b"card", b"{}"))
    if not card or "prompt_sha256" not in table.column_names:
        return
    from clinometer.models.readers.chat import unknown_prompts  # which only such readers need

    asked: dict[str, set[str]] = {}
    for question, prompt in zip(*(table[column].to_pylist() for column in ("question", "prompt_sha256")), strict=True):
        if prompt is not None:
            asked.setdefault(question, set()).add(prompt)
    for question, spec in run.readers.questions(card["name"]).items():
        if unknown := unknown_prompts(card, question_of(spec), asked.get(question, ())):
            raise RunCorruptError(
                f"{run.directory.path(name)}: answers to question {question!r} were given to another prompt "
                f"({min(unknown)[:8]}…) than its words make. {READ_AGAIN}"
            )


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
    if name == COUNTS:
        return "Import the table again: clinometer import --counts FILE --out RUN"
    if name in ("scores.csv", *TABLES[1:]):
        return SCORE_AGAIN
    if name.startswith(f"{RATINGS}/"):
        return RATE_AGAIN
    if name.startswith(f"{READINGS}/"):
        return READ_AGAIN
    return WRITE_AGAIN if name == "report.html" else PLAN_LOST if name == TABLES[0] else REDO
