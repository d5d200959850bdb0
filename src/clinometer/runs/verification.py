"""Check that a run's files are as they were written, and that its scores and report were made from these files.

What scores and a report are made of is one hash each: what has not changed is not computed again.

A fingerprint holds what a run was asked, the checksums of the files that are read, and the code that reads them. It
stands in run.json beside the checksum of the file that was made of it, so neither is taken for that of another. See
decision 32.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import pandas as pd

from clinometer._messages import first_and_more
from clinometer.errors import RunCorruptError, RunError, RunNotFoundError
from clinometer.runs import ledger
from clinometer.runs.answers import READ_AGAIN, reader_question
from clinometer.runs.files import MOST_JSON
from clinometer.runs.plan import PLAN_LOST
from clinometer.runs.progress import Progress
from clinometer.runs.run import SCORE_AGAIN, Run
from clinometer.runs.samples import WITHOUT_PIXELS
from clinometer.runs.storage import REDO, REDO_MISSING, Directory

SCORES: Final = "scores.parquet"
REPORT: Final = "report.html"
SCORED: Final = (SCORES, "curves.parquet", "scores.csv")
DERIVED: Final = (*SCORED, REPORT)

_QUESTION: Final = ("origin", "seed", "until", "suite_fingerprint", "suite_options")
_RATING: Final = f"{ledger.RATINGS}/"
_CARDS: Final = ("encoders", "own_encoders")
_CODE: Final = (".py", ".html", ".css", ".js", ".yaml")
_PACKAGES: Final = ("numpy", "scipy", "pandas")
_BESIDE: Final = ("files", "checksum", "made_of")
"""What run.json says of its files; a fingerprint names those it rests on by itself."""


def fingerprint_of_scores(run: Run, resamples: int) -> str | None:
    """Return a fingerprint of what the scores of a run would be made of now; None where it is not known: compute them.

    It is not known of a run without checksums, nor where a file is not the one that run.json lists. Of each file the
    checksum is read that it carries; the file itself is not (``clinometer verify`` reads all of it).

    What precedes the hyphen is the hash of what is measured, what follows it of all by which the scores are made of it.
    """
    listed = {name: checksum for name, checksum in run.ledger.files.items() if name not in DERIVED}
    files, stamps, hashed = listed, stamps_of(run, beside=DERIVED), _hash(files=listed)
    if stamps is None or recalled(run).get("checked") != [stamps, hashed]:  # else none was touched since it was read
        # a store is not asked for the checksum of a file that it was given by this process
        written = run.ledger.written if run.directory.is_store else {}
        present = [name for name in run.ledger.present() if name not in DERIVED]
        seals = {name: written.get(name) or run.directory.seal(name) for name in present}
        files = {name: seal for name, seal in seals.items() if seal}
        if not listed or files != seals or not listed.items() <= files.items():
            return None
        if files == listed and stamps is not None:
            remember(run, checked=[stamps, hashed])
    ratings = {name: checksum for name, checksum in files.items() if name.startswith(_RATING)}
    decider = run.record.get("options", {}).get("verdict_reader")
    made_by = _hash(ratings=ratings, resamples=resamples, verdict_reader=decider, versions=versions())
    return f"{_hash_measured(run, files)}-{made_by}"


def _hash_measured(run: Run, files: Mapping[str, str]) -> str:
    """Return the hash of what was asked and of what, by its images and vectors. Ratings may be added at any time."""
    record = run.record
    readers = {name: [card["fingerprint"], card["questions"]] for name, card in record.get("readers", {}).items()}
    return _hash(
        **({"readers": readers} if readers else {}),
        asked={name: record.get(name) for name in _QUESTION},
        model=record["model"]["fingerprint"],
        encoders={name: [(key, card["fingerprint"]) for key, card in record.get(name, {}).items()] for name in _CARDS},
        files={name: checksum for name, checksum in files.items() if not name.startswith(_RATING)},
    )


def outdated(run: Run) -> str:
    """Return a warning about scores that were made before the run changed; empty where they were not.

    Nothing is read but run.json. It cannot be said where that does not tell what they were made of, nor of scores of
    an earlier version.
    """
    listed, note = run.ledger.files, _read_note(run, SCORES)
    measured, hyphen, _ = note.get("of", "").partition("-")
    files = {name: checksum for name, checksum in listed.items() if name not in DERIVED}
    if not hyphen or note.get("file") != listed.get(SCORES) or measured == _hash_measured(run, files):
        return ""
    return "images, vectors or settings have changed since the scores were made; give: clinometer score RUN"


def fingerprint_of_report(run: Run) -> str | None:
    """Hash what a report would be made of now: run.json, and every file listed there but the report itself.

    None of a run without checksums.
    """
    files = {name: checksum for name, checksum in run.ledger.files.items() if name != REPORT}
    if not files:
        return None
    record = {name: content for name, content in run.record.items() if name not in _BESIDE}
    return _hash(record=record, files=files, versions=versions())


def is_current(run: Run, name: str, fingerprint: str | None) -> bool:
    """Return whether a file is the one that was made of what has this fingerprint."""
    listed = run.ledger.files.get(name)
    return (
        fingerprint is not None and listed is not None and _read_note(run, name) == {"of": fingerprint, "file": listed}
    )


def _read_note(run: Run, name: str) -> Mapping[str, Any]:
    return (run.record.get("made_of") or {}).get(name) or {}


def are_whole(run: Run, names: tuple[str, ...]) -> bool:
    """Return whether derived files are there, and are what run.json lists."""
    try:
        for name in names:
            if name.endswith(".parquet"):
                run.ledger.read_table(name)
            elif run.directory.sha256(name) != run.ledger.files.get(name):
                return False
    except (RunNotFoundError, RunCorruptError):
        return False
    return True


def lost_images(run: Run) -> pd.DataFrame:
    """Return the samples without an image; of a run that lost none, and was not touched since, no part is read."""
    stamps = stamps_of(run, beside=DERIVED)
    if stamps is not None and recalled(run).get("none lost") == stamps:
        return pd.DataFrame(columns=WITHOUT_PIXELS)
    lost = run.drawn.lost
    if not len(lost):
        remember(run, **{"none lost": stamps})
    return lost


@cache
def versions() -> dict[str, str]:
    """Return the versions of packages that compute, and a hash of our code: a checkout's version stays the same."""
    root, hasher = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(file for file in root.rglob("*") if file.suffix in _CODE):
        hasher.update(f"{path.relative_to(root).as_posix()}\0".encode())
        hasher.update(hashlib.sha256(path.read_bytes()).digest())
    return {name: metadata.version(name) for name in _PACKAGES} | {"clinometer": hasher.hexdigest()}


def _hash(**content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


# --- The stamps of a run's files when its last command ended ---------------------------------------------------------
#
# So that the same command need not read them all, a hidden file holds what the scores were made of, and a hash of the
# stamps of all files: sizes and times, as the operating system has them; of an object store what its listings say,
# among it the hash that it keeps of each file. While the hash is the same, no file was written since. The file is no
# part of the run: without it, or on another kind of filesystem, every file's own checksum is read.


STAMPS: Final = ".file-stamps.json"


def has_stamps(directory: Directory) -> bool:
    """Return whether the place of a run has stamps of its files."""
    return directory.is_local or directory.is_store


def stamps_of(run: Run, *, beside: tuple[str, ...] = ()) -> str | None:
    """Return the stamps of a run's files, but for some, as one hash; None where there are none."""
    if not has_stamps(run.directory):
        return None
    names = [name for name in run.ledger.present() if name not in beside]
    stamps = run.directory.stamps(names)
    if stamps is None:
        return None
    hasher = hashlib.sha256()
    for name, stamp in zip(names, stamps, strict=True):
        hasher.update(f"{name}\0{stamp}\n".encode())
    return hasher.hexdigest()


def remember(run: Run, **facts: Any) -> None:
    """Add facts to the hidden file; a place that cannot be written, or has no stamps, is left as it is."""
    if not has_stamps(run.directory):
        return
    memory = recalled(run)
    try:
        if memory != {**memory, **facts}:
            run.directory.write_bytes(STAMPS, json.dumps({**memory, **facts}).encode())
    except RunError:
        return


def recalled(run: Run) -> Mapping[str, Any]:
    """Return what was kept; nothing where it cannot be read."""
    if not has_stamps(run.directory):
        return {}
    try:
        content = json.loads(run.directory.read_bytes(STAMPS, MOST_JSON))
    except (RunError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


# --- A whole run, read from end to end: which files are missing, or not as they were written -------------------------


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
    checks: list[Callable[[], object]] = []
    parts = {ledger.samples_name(part): part for part in run.parts}  # reads run.json and the plan
    for name in run.ledger.present():
        if name in parts:
            checks.append(partial(run.drawn.read, parts[name]))
        elif name.startswith(f"{ledger.READINGS}/"):
            checks.append(partial(_require_answers, run, name))
        elif name.endswith(".parquet"):
            checks.append(partial(run.ledger.read_table, name, way_out=_way_out(name)))
        else:
            checks.append(partial(_require_bytes, run, name))
    checks += [partial(run.ledger.read_table, name) for name in run.directory.names(ledger.UNFINISHED, ".parquet")]
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
    unused = {ledger.embeddings_name(name) for name in (*run.encoders.dropped, *run.encoders.begun)}
    unused |= {ledger.readings_name(name) for name in run.readers.begun}
    with run.directory.listed_once():
        present, parts = list(run.ledger.present()), {ledger.samples_name(part): part for part in run.parts}
        besides = [name for name in {*present, *run.ledger.files} if name.rpartition("/")[0] in unused]
        damage = missing_files(run, besides=("scores.csv", "report.html", *besides))
        for encoder in run.encoder_cards if run.unchecked else ():  # of which run.json lists no files
            run.vectors.require_finished(encoder)
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
    """Return files that cannot be verified: they are no tables, and not listed in run.json."""
    return [name for name in run.ledger.present() if not name.endswith(".parquet") and name not in run.ledger.files]


def unfinished(run: Run) -> str:
    """Return what of a run was never made, which is no damage: ``3 of 12 parts are drawn``; empty of a finished one."""
    with run.directory.listed_once():
        drawn = sum(run.drawn.has(part) for part in run.parts)
        if drawn < len(run.parts):
            return f"{drawn} of {len(run.parts)} parts are drawn"
        return "" if run.directory.exists("scores.parquet") else "it is not scored"


def missing_files(run: Run, besides: Collection[str] = ()) -> list[str]:
    """Return what was written and is not there any more: a line for each stage's files, with the way out.

    ``besides`` : files that nobody misses.
    """
    there = {*run.ledger.present(), *besides}
    listed = [*run.ledger.files, *(() if run.ledger.files else map(ledger.samples_name, run.parts))]
    names_by_way_out: dict[str, list[str]] = {}
    for name in listed:
        if name not in there:
            names_by_way_out.setdefault(_way_out(name).replace(REDO, REDO_MISSING), []).append(name)
    return [f"missing: {first_and_more(names, 3)}. {way_out}" for way_out, names in names_by_way_out.items()]


def _require_answers(run: Run, name: str) -> None:
    """Refuse answers that are not what was written, or were given to other words than the run's question makes."""
    table = run.ledger.read_table(name, way_out=READ_AGAIN)
    card = json.loads((table.schema.metadata or {}).get(b"card", b"{}"))
    if not card or "prompt_sha256" not in table.column_names:
        return
    from clinometer.models.readers.chat import unknown_prompts  # which only such readers need

    prompts_by_question: dict[str, set[str]] = {}
    for question, prompt in zip(*(table[column].to_pylist() for column in ("question", "prompt_sha256")), strict=True):
        if prompt is not None:
            prompts_by_question.setdefault(question, set()).add(prompt)
    for question, spec in run.readers.questions(card["name"]).items():
        if unknown := unknown_prompts(card, reader_question(spec), prompts_by_question.get(question, ())):
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
    if name == ledger.COUNTS:
        return "Import the table again: clinometer import --counts FILE --out RUN"
    if name in ("scores.csv", *ledger.TABLES[1:]):
        return SCORE_AGAIN
    if name.startswith(_RATING):
        return RATE_AGAIN
    if name.startswith(f"{ledger.READINGS}/"):
        return READ_AGAIN
    return WRITE_AGAIN if name == "report.html" else PLAN_LOST if name == ledger.TABLES[0] else REDO
