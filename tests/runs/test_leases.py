"""Who works on a run: one at a time, on any filesystem; a dead one for a minute at most."""

import os
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

import clinometer as cm
from clinometer.errors import Code, RunLockedError
from clinometer.runs import leases
from clinometer.runs.leases import Holder, Lease, is_gone
from clinometer.runs.ledger import Ledger
from clinometer.runs.storage import Directory
from tests import quick
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite


@pytest.fixture(params=["local", "memory"])
def directory(request, tmp_path):
    return Directory(tmp_path if request.param == "local" else f"memory://leases{tmp_path}")


def lease(directory, lifetime=0.3, **options):
    return Lease(directory, "driver", lifetime=lifetime, **options)


def files(directory):
    return directory.names(".leases", "")


@pytest.fixture
def watch_until(monkeypatch):
    """Have who watches a silent holder wait for an event, however long it takes on a machine with much to do."""

    def watch(event, clock=time.time):
        monkeypatch.setattr(
            leases, "time", SimpleNamespace(time=clock, monotonic=time.monotonic, sleep=lambda seconds: event())
        )

    return watch


def die(held):
    """End a holder without a word, as a power cut does."""
    held._released.set()
    held._signs.join()


def test_one_holds_it_and_nothing_is_left_of_it(directory):
    first, second = lease(directory, 60), lease(directory, 60)
    first.acquire()
    with raises(RunLockedError, code=Code.LOCKED, match=f"process {os.getpid()} on "):
        second.acquire()
    first.release()
    second.acquire()
    second.release()
    assert files(directory) == []


def test_it_is_waited_for(directory):
    first, second = lease(directory, 60), lease(directory, 60)
    first.acquire()
    threading.Timer(0.3, first.release).start()
    second.acquire(wait=600)
    second.release()


def test_of_many_at_once_one_has_it(directory):
    held, told = [], []

    def attempt():
        each = lease(directory, 60)
        try:
            each.acquire()
        except RunLockedError:
            told.append(each)
        else:
            held.append(each)

    threads = [threading.Thread(target=attempt) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(held), len(told)) == (1, 7)
    held[0].release()
    assert files(directory) == []


def test_one_that_was_given_back_while_it_was_asked_for_is_free(directory, monkeypatch):
    first, second = lease(directory, 60), lease(directory, 60)
    first.acquire()
    look = Lease._is_over

    def look_and_give_back(self, generation):
        over = look(self, generation)
        first.release()
        return over

    monkeypatch.setattr(Lease, "_is_over", look_and_give_back)
    second.acquire()
    second.require_held()
    second.release()


def test_a_holder_that_comes_back_after_all_is_done_is_told_so(directory):
    asleep, awake = lease(directory), lease(directory)
    asleep.acquire()
    die(asleep)
    awake.acquire(wait=600)
    awake.release()
    with raises(RunLockedError, code=Code.LOCKED, match=r"taken over \(a process that has ended since\)"):
        asleep.require_held()


def test_a_holder_that_gives_signs_keeps_it(directory, watch_until, monkeypatch):
    signs, give_sign = threading.Semaphore(0), Lease._give_sign
    monkeypatch.setattr(Lease, "_give_sign", lambda self: (give_sign(self), signs.release()))
    first = lease(directory)
    first.acquire()
    for _ in range(leases.SIGNS + 1):  # for longer than its lifetime
        signs.acquire()
    second = lease(directory)
    watch_until(signs.acquire, clock=lambda: time.time() + second._lifetime)  # whether it looks silent or not
    with raises(RunLockedError, code=Code.LOCKED):
        second.acquire()
    first.require_held()
    first.release()


def test_a_dead_holders_lease_ends(directory):
    first, second = lease(directory), lease(directory)
    first.acquire()
    die(first)
    with raises(RunLockedError, code=Code.LOCKED):
        lease(directory, 60).acquire()
    second.acquire(wait=600)
    second.release()
    assert files(directory) == []


def test_a_holder_that_comes_back_is_told_and_takes_nothing_with_it(directory):
    asleep, awake = lease(directory), lease(directory)
    asleep.acquire()
    die(asleep)
    awake.acquire(wait=600)
    asleep._find_out_whether_lost()
    with raises(RunLockedError, code=Code.LOCKED, match=r"silent for 0\.3 s.*taken over"):
        asleep.require_held()
    asleep.release()
    awake._find_out_whether_lost()
    awake.require_held()
    awake.release()
    assert files(directory) == []


def test_a_holder_that_wakes_looks_before_it_writes(tmp_path, monkeypatch):
    """Its thread that gives signs may wake after the one that writes."""
    monkeypatch.setattr("clinometer.runs.leases.LIFETIME", 0.3)
    monkeypatch.setattr(Lease, "_give_signs", lambda self: None)  # asleep
    directory = Directory(f"memory://wakes{tmp_path}")
    with directory.locked():
        directory.write_bytes("x", b"first")
        successor = lease(directory)
        successor.acquire(wait=600)
        with raises(RunLockedError, code=Code.LOCKED, match=r"silent for 0\.3 s.*taken over"):
            directory.write_bytes("x", b"second")
    assert directory.read_bytes("x") == b"first"
    successor.require_held()
    successor.release()
    assert files(directory) == []


def test_who_slept_while_it_changed_run_json_changes_nothing(tmp_path, monkeypatch):
    run = quick.audit(Painter(), toy_suite(target=2, attribute=2, concepts=2), f"memory://s{tmp_path}", encoder=Eye())
    monkeypatch.setattr("clinometer.runs.ledger._WAIT", 0.6)

    def change_and_sleep():
        with monkeypatch.context() as asleep:
            asleep.setattr(Lease, "_give_signs", lambda self: None)
            with run.ledger.together():
                run.ledger.update(lambda record: {"batch_size": 7})
                asleep.undo()
                time.sleep(0.4)
                monkeypatch.setattr("clinometer.runs.ledger._WAIT", 5)
                thread = threading.Thread(
                    target=Ledger(Directory(run.url)).update, args=(lambda record: {"batch_size": 9},)
                )
                thread.start()
                thread.join()

    with raises(RunLockedError, code=Code.LOCKED, match="taken over"):
        change_and_sleep()
    assert cm.open_run(run.url).record["batch_size"] == 9


@pytest.mark.parametrize("ahead", [-7200, 7200])
def test_a_clock_that_is_wrong_takes_it_from_nobody(directory, watch_until, ahead):
    watch_until(lambda: None, clock=lambda: time.time() + ahead)
    first = lease(directory, 60)
    first.acquire()
    watch_until(lambda: directory.write_json(f".leases/{first._holder.token}.beat", {"time": time.time() + ahead}))
    with raises(RunLockedError, code=Code.LOCKED):
        lease(directory).acquire()
    first.release()


def test_a_process_of_this_machine_that_is_gone_is_known_to_be():
    here = Holder()
    assert not is_gone(here)
    assert is_gone(replace(here, pid=2**22 + 1))  # more than Linux counts to
    assert not is_gone(replace(here, pid=2**22 + 1, machine="another"))
    assert not is_gone(replace(here, pid=2**22 + 1, host="another container"))


def test_a_host_is_told_from_others_and_not_named(tmp_path, monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "quaggahost")
    with Directory(tmp_path).locked():
        held = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        assert b"pid" in held
        assert b"quaggahost" not in held
        with raises(RunLockedError, code=Code.LOCKED, match=f"process {os.getpid()} on this machine"):
            Directory(tmp_path).locked().__enter__()
        monkeypatch.setattr("socket.gethostname", lambda: "okapihost")
        with raises(RunLockedError, code=Code.LOCKED, match="on another machine"):
            Directory(tmp_path).locked().__enter__()
        next(tmp_path.glob(".leases/driver-*.json")).write_text("no claim")
        with raises(RunLockedError, code=Code.LOCKED, match=r"\(process unknown\)"):
            Directory(tmp_path).locked().__enter__()
        monkeypatch.setattr("socket.gethostname", lambda: "quaggahost")
    assert Holder().host != Holder().machine


def test_a_silent_holder_of_this_machine_keeps_the_run(tmp_path, monkeypatch):
    """Its process was stopped, say: the lease is over, and the lock of the operating system is not."""
    monkeypatch.setattr("clinometer.runs.leases.LIFETIME", 0.1)
    monkeypatch.setattr(Lease, "_give_signs", lambda self: None)
    with Directory(tmp_path).locked():
        time.sleep(0.2)
        with raises(RunLockedError, code=Code.LOCKED, match="another process is working"):
            Directory(tmp_path).locked().__enter__()


def test_a_second_driver_on_an_object_store_is_told(tmp_path):
    url = f"memory://store{tmp_path}"
    with Directory(url).locked(), raises(RunLockedError, code=Code.LOCKED, match="another process is working"):
        quick.audit(Painter(), toy_suite(), url, encoder=Eye())
    run = quick.audit(Painter(), toy_suite(), url, encoder=Eye())
    assert run.is_scored
    assert files(run.directory) == []


def test_who_was_taken_over_writes_nothing_more(tmp_path, monkeypatch):
    monkeypatch.setattr("clinometer.runs.leases.LIFETIME", 0.3)
    directory, successor = Directory(tmp_path), lease(Directory(tmp_path), is_dead=lambda holder: True)
    with directory.locked():
        directory.write_bytes("x", b"first")
        successor.acquire()
        time.sleep(0.3)  # until it looks
        with raises(RunLockedError, code=Code.LOCKED, match="taken over"):
            directory.write_bytes("x", b"second")
    assert directory.read_bytes("x") == b"first"
    successor.release()
    assert files(directory) == []


def test_a_record_without_a_lock_is_changed_by_one_at_a_time(tmp_path):
    run = quick.audit(Painter(), toy_suite(target=2, attribute=2, concepts=2), f"memory://r{tmp_path}", encoder=Eye())

    def change(name):
        for number in range(5):
            said = {f"{name}{number}": 1}
            Ledger(run.directory).update(lambda record, said=said: time.sleep(0.02) or said)  # others come meanwhile

    threads = [threading.Thread(target=change, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    changed = Ledger(run.directory).record
    assert all(changed[f"{name}{number}"] == 1 for name in "abc" for number in range(5))
    assert files(run.directory) == []


def test_the_first_file_stays(directory):
    assert directory.create_bytes("part", b"first")
    assert not directory.create_bytes("part", b"second")
    assert directory.read_bytes("part") == b"first"
    assert directory.contents() == ["part"]


def test_of_many_writers_of_a_file_one_wins_and_it_is_whole(tmp_path):
    directory, won = Directory(tmp_path), []
    contents = [bytes([number]) * 100_000 for number in range(8)]

    def write(content):
        if directory.create_bytes("samples/part", content):
            won.append(content)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [directory.read_bytes("samples/part")] == won
    assert [path.name for path in (tmp_path / "samples").iterdir()] == ["part"]


def test_a_filesystem_without_links_has_first_files_too(tmp_path, monkeypatch):
    def refuse(source, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("clinometer.runs.files.os.link", refuse)
    test_the_first_file_stays(Directory(tmp_path))


@pytest.mark.parametrize(
    "claim",
    [
        b"\0" * 50,
        b"[]",
        b'{"pid": "x", "host": 3, "machine": null, "token": "../other"}',
        b'{"pid": -1}',
        b'{"a": 1}',
    ],
)
def test_a_damaged_claim_is_nobodys(directory, claim):
    """A holder's token names a file that is removed with its claim: one that leads elsewhere must be none."""
    directory.write_bytes(".leases/driver-000001.json", claim)
    directory.write_bytes(".leases/driver-nobody.json", claim)
    directory.write_bytes("other.beat", b"somebody else's")
    own = lease(directory)
    own.acquire()
    own.release()
    assert directory.exists("other.beat")


def test_a_sign_that_is_no_time_keeps_nobody_out_for_ever(directory):
    first = lease(directory)
    first.acquire()
    token = first._read_holder(1).token
    die(first)
    directory.write_bytes(f".leases/{token}.beat", b'{"time": NaN}')
    second = lease(directory)
    second.acquire(wait=600)
    second.release()
