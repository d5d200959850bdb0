"""A server is killed, bits of its files flip, files go: what was acknowledged is there, or the loss is said."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from sqlalchemy.orm import Session

from clinometer.errors import Code, RatingsError, RatingsPlaceWarning
from clinometer.web.database import (
    FILE,
    Answer,
    Invitation,
    Item,
    Rater,
    Task,
    Turn,
    _config,
    _engine,
    acknowledged,
    find_database,
    now,
    open_database,
    reading,
    repair_database,
    writing,
)
from tests.quick import thorough_but
from tests.raising import raises

ANSWERS = 120
KILLED = """
import os, signal, sys
from sqlalchemy import select
from clinometer.web.database import open_database, writing
from clinometer.web.ratings.raters import record
from clinometer.web.database import Rater
engine = open_database(sys.argv[1])
for place in range(1, int(sys.argv[2]) + 1):
    with writing(engine) as session:
        assert record(session, session.scalars(select(Rater)).one(), place, "man" if place % 2 else "woman", 1.5)
    print(place, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def with_task(url: str, items: int = ANSWERS) -> None:
    """A task with one rater, who has yet to answer."""
    engine = open_database(url)
    with writing(engine) as session:
        answers = [{"name": name, "label": name} for name in ("man", "woman")]
        task = Task(id="t" * 16, title="T", question="Q", consent="C", answers=answers, raters_each=1)
        invitation = Invitation(task=task, hash="h", expires=now())
        task.items = [Item(run="run", name=f"item {k}", concept="c") for k in range(items)]
        session.add_all([task, invitation])
        session.flush()
        rater = Rater(task_id=task.id, invitation_id=invitation.id, name="rater", hash="r")
        session.add(rater)
        session.flush()
        session.add_all(Turn(rater_id=rater.id, item_id=item.id, place=k) for k, item in enumerate(task.items, 1))
    engine.dispose()  # nothing of this process takes the log in later


def answers_in(url: str) -> dict[str, str]:
    with reading(open_database(url)) as session:
        rows = session.execute(
            sa.select(Item.name, Answer.answer)
            .join(Turn, Turn.item_id == Item.id)
            .join(Rater, Rater.id == Turn.rater_id)
            .join(Answer, Answer.turn_id == Turn.id)
            .where(Rater.hash == "r")
        )
        return {name: answer for name, answer in rows}


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folder of a database whose server was killed after it had acknowledged every answer, and these answers."""
    folder = tmp_path_factory.mktemp("killed")
    url = f"sqlite:///{folder / FILE}"
    with_task(url)
    order = [sys.executable, "-c", KILLED, url, str(ANSWERS)]
    server = subprocess.run(order, capture_output=True, text=True, check=False)
    assert server.returncode == -signal.SIGKILL, server.stderr
    assert server.stdout.split() == [str(k) for k in range(1, ANSWERS + 1)]
    return folder, {f"item {k - 1}": "man" if k % 2 else "woman" for k in range(1, ANSWERS + 1)}


def copied(killed, tmp_path):
    folder, answers = killed
    shutil.copytree(folder, tmp_path / "copy")
    return tmp_path / "copy", answers


def flip(file, rng):
    content = bytearray(file.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


def survives_or_is_said(folder, answers) -> bool:
    """Whether all is there; where it is not, that must have been said."""
    try:
        found = answers_in(f"sqlite:///{folder / FILE}")
    except RatingsError as error:
        said = str(error)
        assert str(folder / FILE) in said
        return False
    assert found == answers
    return True


@pytest.mark.thorough
def test_a_killed_server_loses_nothing(killed, tmp_path):
    folder, answers = copied(killed, tmp_path)
    assert (folder / f"{FILE}-wal").stat().st_size > 4096  # the attack has something to damage
    assert survives_or_is_said(folder, answers)


@pytest.mark.parametrize("seed", thorough_but(range(40), *range(8)))
def test_a_bit_flips_in_the_log(killed, tmp_path, seed):
    folder, answers = copied(killed, tmp_path)
    flip(folder / f"{FILE}-wal", random.Random(seed))
    survives_or_is_said(folder, answers)


def test_each_frame_of_the_log_counts(killed, tmp_path):
    """The last commit damaged, with nothing behind it that could tell."""
    folder, _ = copied(killed, tmp_path)
    log = folder / f"{FILE}-wal"
    content = bytearray(log.read_bytes())
    with closing(sqlite3.connect(folder / FILE)) as connection:
        connection.execute("SELECT count(*) FROM answers").fetchone()
        end = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]
    shutil.copy(killed[0] / FILE, folder / FILE)
    content[32 + (end - 1) * (4096 + 24) + 2000] ^= 1
    log.write_bytes(content)
    with raises(RatingsError, code=Code.CORRUPT, match="changes .*gone"):
        open_database(f"sqlite:///{folder / FILE}")
    assert (folder / f"{FILE}-wal.damaged").exists()


@pytest.mark.parametrize("seed", thorough_but(range(40), *range(8)))
def test_a_bit_flips_in_the_database(killed, tmp_path, seed):
    folder, answers = copied(killed, tmp_path)
    with closing(sqlite3.connect(folder / FILE)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    flip(folder / FILE, random.Random(1000 + seed))
    survives_or_is_said(folder, answers)


@pytest.mark.parametrize(
    "altered",
    [
        "UPDATE answers SET answer = 'woman' WHERE turn_id = 3",
        "UPDATE items SET name = 'another' WHERE id = 3",
        "DELETE FROM answers WHERE turn_id = 3",
        "UPDATE turns SET place = -3 WHERE id = 3",
    ],
)
def test_a_changed_row_is_said(killed, tmp_path, altered):
    folder, _ = copied(killed, tmp_path)
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(altered)
    with raises(RatingsError, code=Code.CORRUPT, match="(answers|items|turns)"):
        open_database(f"sqlite:///{folder / FILE}")


def test_seals_follow_every_change(tmp_path):
    """Whatever is added, changed, undone or removed, by whichever way: the sums are those of the rows."""
    url = f"sqlite:///{tmp_path / FILE}"
    with_task(url, 8)
    engine, rng = open_database(url), random.Random(3)
    for step in range(60):
        with writing(engine) as session:
            turn = rng.choice(session.scalars(sa.select(Turn)).all())
            with session.begin_nested() as nested:
                if session.get(Answer, turn.id) is None:
                    session.add(Answer(turn_id=turn.id, answer=rng.choice(["man", "Ä\0\ud7ff"]), seconds=rng.random()))
                elif step % 3:
                    session.get(Answer, turn.id).answer = "woman"
                else:
                    session.delete(session.get(Answer, turn.id))
                session.flush()
                if step % 4 == 0:
                    nested.rollback()
    open_database(url)
    with writing(engine) as session:
        session.delete(session.scalars(sa.select(Rater)).one())  # and with it its turns and answers
    with reading(open_database(url)) as session:
        assert not session.scalars(sa.select(Turn)).all()


@pytest.mark.thorough
def test_two_processes_at_once_raise_no_alarm(tmp_path):
    url = f"sqlite:///{tmp_path / FILE}"
    with_task(url)
    writer = subprocess.Popen([sys.executable, "-c", KILLED, url, str(ANSWERS)], stdout=subprocess.PIPE, text=True)
    while writer.stdout.readline():
        open_database(url).dispose()
    assert writer.wait() == -signal.SIGKILL
    assert len(answers_in(url)) == ANSWERS


# --- files that are not where they were ------------------------------------------------------------------------------


def test_a_missing_database_is_said(killed, tmp_path):
    folder, _ = copied(killed, tmp_path)
    (folder / FILE).unlink()
    with raises(RatingsError, code=Code.NOT_FOUND, match=r"\d+ changes .*to start over"):
        open_database(f"sqlite:///{folder / FILE}")
    assert not (folder / FILE).exists()
    for ending in (".seal", "-wal"):
        (folder / f"{FILE}{ending}").unlink()
    open_database(f"sqlite:///{folder / FILE}")


def test_an_older_copy_is_said_and_taken_when_that_is_asked(killed, tmp_path):
    folder, answers = copied(killed, tmp_path)
    url = f"sqlite:///{folder / FILE}"
    older = dict(list(answers.items())[:100])
    with closing(sqlite3.connect(folder / FILE)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(folder / FILE, tmp_path / "older")
    engine = open_database(url)
    with writing(engine) as session:
        for turn in session.scalars(sa.select(Turn).where(Turn.place <= 20)):
            session.get(Answer, turn.id).answer = "man"
    engine.dispose()
    shutil.copy(tmp_path / "older", folder / FILE)
    with raises(RatingsError, code=Code.CORRUPT, match="10 changes .*ratings repair"):
        open_database(url)
    copy = repair_database(url)
    assert Path(copy).read_bytes() == (tmp_path / "older").read_bytes()
    assert answers_in(url) == answers
    assert older.items() <= answers_in(url).items()


def test_a_damaged_seal_is_said(killed, tmp_path):
    folder, answers = copied(killed, tmp_path)
    flip(folder / f"{FILE}.seal", random.Random(1))
    with raises(RatingsError, code=Code.CORRUPT, match=r"\.seal"):
        open_database(f"sqlite:///{folder / FILE}")
    repair_database(f"sqlite:///{folder / FILE}")
    assert survives_or_is_said(folder, answers)


def test_a_database_without_seals_is_sealed(tmp_path):
    """One of the first version: simulated raters were told by their names."""
    url = f"sqlite:///{tmp_path / FILE}"
    engine = _engine(url)
    with engine.connect() as connection:
        command.upgrade(_config(connection), "0001")
        task = "('t', 'T', 'Q', 'C', '', '[]', 3, 0, 0, '2026-01-01', NULL)"
        connection.exec_driver_sql(f"INSERT INTO tasks VALUES {task}")
        connection.exec_driver_sql("INSERT INTO invitations VALUES (1, 't', 'h', '2026-01-01', '2027-01-01', NULL, 0)")
        for k, name in enumerate(("skill-98", "0a1b2c3d4e5f")):
            connection.exec_driver_sql(f"INSERT INTO raters VALUES ({k}, 't', 1, '{name}', '{k}', '2026-01-01', NULL)")
        connection.exec_driver_sql("INSERT INTO items VALUES (1, 't', 'run', 'concept:c', 'c', '', 0, '', 0)")
        connection.commit()
    engine.dispose()
    with reading(open_database(url)) as session:
        marked = {rater.name: rater.simulated for rater in session.scalars(sa.select(Rater))}
        assert marked == {"skill-98": True, "0a1b2c3d4e5f": False}
        assert session.scalars(sa.select(Item.pictures)).one() == []
    assert acknowledged(tmp_path / FILE) > 0
    open_database(url)


def test_a_database_of_a_newer_version_is_named(tmp_path):
    url = f"sqlite:///{tmp_path / FILE}"
    with open_database(url).begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with raises(RatingsError, code=Code.UNREADABLE, match="'9999'"):
        open_database(url)


def test_a_database_in_the_cache_is_moved(killed, tmp_path):
    cache, answers = copied(killed, tmp_path)
    (cache / f"{FILE}.seal").unlink()  # earlier versions made none
    with pytest.warns(RatingsPlaceWarning, match="was moved from"):
        url = find_database("", tmp_path / "data", cache, cache)
    assert answers_in(url) == answers  # what was in the log came with it
    assert not (cache / FILE).exists()
    assert find_database("", tmp_path / "data", cache) == url == f"sqlite:///{tmp_path / 'data' / FILE}"


def test_a_database_that_is_in_use_is_not_moved(killed, tmp_path):
    cache, _ = copied(killed, tmp_path)
    with closing(sqlite3.connect(cache / FILE)) as connection:
        connection.execute("SELECT count(*) FROM answers").fetchone()
        with raises(RatingsError, code=Code.STORAGE):
            find_database("", tmp_path / "data", cache)
    assert (cache / FILE).exists()


def test_two_databases_are_named(killed, tmp_path):
    cache, _ = copied(killed, tmp_path)
    open_database(f"sqlite:///{tmp_path / 'data' / FILE}")
    with pytest.warns(RatingsPlaceWarning, match="that is not used"):
        find_database("", tmp_path / "data", cache)
    assert (cache / FILE).exists()
    assert find_database("postgresql://x/y", tmp_path / "data", cache) == "postgresql://x/y"


def test_what_is_removed_is_not_left_in_the_file(tmp_path):
    url = f"sqlite:///{tmp_path / FILE}"
    with_task(url, 3)
    engine = open_database(url)
    with writing(engine) as session:
        session.add(Answer(turn_id=1, answer="a very private answer"))
    with Session(engine) as session, session.begin():
        session.execute(sa.delete(Answer))
    engine.dispose()  # the last to close takes the log in
    assert b"very private" not in (tmp_path / FILE).read_bytes()
    assert os.stat(tmp_path / f"{FILE}.seal").st_mode & 0o077 == 0
