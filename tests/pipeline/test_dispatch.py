"""Units to slots: each is made, in whatever order workers finish and however they die."""

import random
from collections import Counter
from concurrent.futures import Future

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clinometer.errors import Code, EngineError
from clinometer.pipeline.engines import MOST_DEATHS, Death, Done
from clinometer.pipeline.engines.dispatch import WorkerDiedError, dispatch
from tests.raising import raises


class Slot:
    """A worker that dies over each unit as often as a table says, and finishes at once."""

    def __init__(self, deaths, made, starts=lambda: True):
        self.deaths, self.made, self.starts = deaths, made, starts
        self.has_worker = False

    def start(self):
        self.has_worker = True
        return settled(None) if self.starts() else settled(error=WorkerDiedError("it never was"))

    def submit(self, unit):
        doomed = [part for part in unit if self.deaths[part] > 0]
        if doomed:
            self.deaths[doomed[0]] -= 1
            return settled(error=WorkerDiedError(f"part {doomed[0]}"))
        self.made.append(unit)
        return settled(unit)

    def read_error(self, error):
        return error


def settled(result=None, *, error=None):
    future = Future()
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
    return future


@settings(deadline=None)
@given(
    slots=st.integers(1, 7),
    sizes=st.lists(st.integers(1, 4), max_size=12),
    deaths=st.dictionaries(st.integers(0, 47), st.integers(1, 2), max_size=6),
)
def test_every_part_is_made_once_by_any_number_of_mortal_workers(slots, sizes, deaths):
    starts = [sum(sizes[:order]) for order in range(len(sizes))]
    units = [tuple(range(start, start + size)) for start, size in zip(starts, sizes, strict=True)]
    made = []
    left = Counter(deaths)
    events = list(dispatch([Slot(left, made) for _ in range(slots)], units))
    assert Counter(part for unit in made for part in unit) == Counter(range(sum(sizes)))
    assert {event.unit for event in events if isinstance(event, Done)} == set(made)
    assert not [event for event in events if isinstance(event, Death) and event.given_up]


def test_a_part_that_kills_every_worker_is_given_up_and_the_others_are_made():
    made = []
    slots = [Slot(Counter({5: 99}), made) for _ in range(2)]
    events = list(dispatch(slots, [(part,) for part in range(9)]))
    assert sorted(made) == [(part,) for part in range(9) if part != 5]
    deaths = [event for event in events if isinstance(event, Death)]
    assert [(event.unit, event.times, event.given_up) for event in deaths] == [
        ((5,), times, times == MOST_DEATHS) for times in (1, 2, 3)
    ]
    assert deaths[-1].reason == "part 5"


def test_of_several_parts_that_a_worker_died_of_each_is_made_by_itself():
    made = []
    events = list(dispatch([Slot(Counter({1: 99}), made)], [(0, 1, 2)]))
    assert sorted(made) == [(0,), (2,)]
    assert [event.unit for event in events if isinstance(event, Death) and event.given_up] == [(1,)]


def test_what_the_work_raises_is_raised():
    class Raising(Slot):
        def submit(self, unit):
            return settled(error=ValueError("no such prompt"))

    with pytest.raises(ValueError, match="no such prompt"):
        list(dispatch([Raising(Counter(), [])], [(0,)]))


def test_slots_without_a_worker_leave_the_work_to_the_others():
    made = []
    flaky = random.Random(0)
    slots = [Slot(Counter(), made, lambda: False), Slot(Counter(), made, lambda: flaky.random() < 0.9)]
    list(dispatch(slots, [(part,) for part in range(20)]))
    assert len(made) == 20


def test_workers_that_never_live_are_told():
    with raises(EngineError, code=Code.FAILED, field="engine", match="no worker lives long enough"):
        list(dispatch([Slot(Counter(), [], lambda: False)], [(0,)]))


class Absent(Slot):
    """A worker that waits for a machine that never comes."""

    def start(self):
        self.has_worker = True
        return Future()


def test_a_worker_without_a_machine_leaves_the_next_work_to_those_that_live():
    made = []
    slots = [Absent(Counter(), made), Slot(Counter(), made), Slot(Counter(), made)]
    list(dispatch(slots[:2], [(0,), (1,)]))
    assert made == [(0,), (1,)]
    list(dispatch(slots, [(2,)]))
    assert made[2:] == [(2,)]
    assert not slots[2].has_worker  # one unit needs no further worker


def test_a_cluster_without_a_free_place_is_told(monkeypatch):
    monkeypatch.setattr("clinometer.pipeline.engines.dispatch.PATIENCE", 0.05)
    with raises(EngineError, code=Code.FAILED, field="engine", match=r"within 0\.05 s; .* fewer --workers"):
        list(dispatch([Absent(Counter(), [])], [(0,)]))
