"""One generator is on its device; others wait in the host's memory for as long as that has room, and come back."""

import weakref

import pytest

from clinometer._memory import Memory
from clinometer.models import load_generator
from clinometer.models.protocols import GenerationRequest
from clinometer.pipeline import recipes
from clinometer.pipeline.recipes import KEPT_FREE, LoadedGenerators

REQUESTS = [GenerationRequest(str(n), prompt, n) for n, prompt in enumerate(("a doctor", "a nurse"))]


class Machine:
    """A device, and a host with memory, which are told who comes and goes."""

    def __init__(self, total=1000):
        self.total, self.device, self.host, self.loads, self.most_on_device = total, [], {}, [], 0

    @property
    def memory(self):
        return Memory(self.total, self.total - sum(self.host.values()))

    def enter(self, name):
        self.device.append(name)
        self.most_on_device = max(self.most_on_device, len(self.device))

    def loader(self, name, kind):
        def load():
            self.loads.append(name)
            return kind(self, name)

        return load


class Fixed:
    """A model that cannot leave its device but by being forgotten."""

    def __init__(self, machine, name):
        self.machine, self.name = machine, name
        machine.enter(name)
        weakref.finalize(self, self.gone, machine, name)
        self.itself = self  # as those of diffusers: only the collector finds it

    @staticmethod
    def gone(machine, name):
        machine.host.pop(name, None)
        if name in machine.device:
            machine.device.remove(name)


class Mobile(Fixed):
    """A model that can leave its device."""

    weight_bytes = 200

    def park(self):
        self.machine.device.remove(self.name)
        self.machine.host[self.name] = self.weight_bytes

    def unpark(self):
        del self.machine.host[self.name]
        self.machine.enter(self.name)


class Weightless(Mobile):
    """A model that does not know what it takes."""

    weight_bytes = 0


class Stuck(Mobile):
    def park(self):
        raise RuntimeError("CUDA error: out of memory")


class Lost(Mobile):
    def unpark(self):
        raise MemoryError


@pytest.fixture
def machine(monkeypatch):
    made = Machine()
    monkeypatch.setattr(recipes, "memory", lambda: made.memory)
    return made


def taken(machine, kind, names):
    held = LoadedGenerators()
    for name in names:
        assert held.take(name, machine.loader(name, kind)).name == name
        assert machine.device == [name]
    return held


def test_each_is_loaded_once_and_one_is_on_the_device(machine):
    taken(machine, Mobile, "aabcabc")
    assert machine.loads == list("abc")
    assert machine.most_on_device == 1


@pytest.mark.parametrize("kind", [Fixed, Weightless, Stuck])
def test_what_cannot_leave_is_forgotten_before_the_next_is_loaded(machine, kind):
    taken(machine, kind, "aabab")
    assert machine.loads == list("abab")
    assert machine.most_on_device == 1


def test_what_cannot_come_back_is_loaded_again(machine):
    taken(machine, Lost, "aba")
    assert machine.loads == list("aba")
    assert machine.host.keys() == {"b"}


def test_a_share_of_memory_stays_free_and_those_that_wait_stay(machine):
    fit = int((1 - KEPT_FREE) * machine.total) // Mobile.weight_bytes
    names = [str(n) for n in range(fit + 2)]
    held = taken(machine, Mobile, names)
    assert list(machine.host) == names[:fit]
    assert machine.memory.available >= KEPT_FREE * machine.total
    for name in names[:fit]:
        held.take(name, machine.loader(name, Mobile))
    assert machine.loads == names
    held.take(names[fit], machine.loader(names[fit], Mobile))
    assert machine.loads == [*names, names[fit]]


def test_where_others_take_memory_those_that_wait_leave_but_the_one_that_is_asked_for(machine):
    machine.total += 1000
    held = taken(machine, Mobile, "abcd")
    machine.host["another process"] = 1400
    held.take("b", machine.loader("b", Mobile))
    assert machine.loads == list("abcd")
    assert machine.host.keys() == {"another process"}
    assert machine.device == ["b"]


def test_one_that_cannot_be_loaded_leaves_none_at_work(machine):
    held = taken(machine, Mobile, "a")
    with pytest.raises(KeyError):
        held.take("b", {}.popitem)
    assert machine.device == []
    assert held.take("a", machine.loader("a", Mobile)).name == "a"
    assert machine.loads == ["a"]


def test_a_pipeline_comes_back_and_draws_the_same(stable_diffusion):
    held = LoadedGenerators()

    def load():
        return load_generator(str(stable_diffusion), steps=2)

    first = held.take("first", load)
    before = [result.image.tobytes() for result in first.generate(REQUESTS)]
    assert held.take("second", load) is not first
    assert held.take("first", load) is first
    assert [result.image.tobytes() for result in first.generate(REQUESTS)] == before


def test_a_pipeline_that_has_no_room_to_wait_is_gone_before_the_next_is_loaded(stable_diffusion, monkeypatch):
    monkeypatch.setattr(recipes, "memory", lambda: Memory(1000, 0))
    held = LoadedGenerators()
    first = weakref.ref(held.take("first", lambda: load_generator(str(stable_diffusion))).pipeline)

    def load():
        assert first() is None
        return load_generator(str(stable_diffusion))

    held.take("second", load)
