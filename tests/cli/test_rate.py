"""A rate is right from the first batch on, and follows what happens now."""

import io
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from clinometer.cli.console import SAY_EVERY, LiveProgress, MovingRate


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def batch(rate, clock, size, seconds):
    """Items that are told of within a millisecond, after the seconds that they took."""
    clock.now += seconds
    for _ in range(size):
        clock.now += 1e-6
        rate.advance(1)


def test_nothing_is_known_before_the_first_item():
    rate = MovingRate(Clock())
    assert rate.per_second is None
    assert rate.seconds_left(10) is None


@given(size=st.integers(1, 64), seconds=st.floats(0.1, 100), batches=st.integers(1, 30))
def test_a_steady_rate_is_told_right_after_every_batch(size, seconds, batches):
    clock = Clock()
    rate = MovingRate(clock)
    for _ in range(batches):
        batch(rate, clock, size, seconds)
        assert rate.per_second == pytest.approx(size / seconds, rel=1e-3)
        assert rate.seconds_left(3 * size) == pytest.approx(3 * seconds, rel=2e-3)


def test_time_left_runs_on_while_a_batch_is_made():
    clock = Clock()
    rate = MovingRate(clock)
    batch(rate, clock, 8, 10.0)
    clock.now += 4
    assert rate.seconds_left(8) == pytest.approx(6, abs=0.1)
    clock.now += 40
    assert rate.seconds_left(8) == 0


def test_what_was_slow_at_first_is_forgotten():
    clock = Clock()
    rate = MovingRate(clock)
    batch(rate, clock, 8, 300.0)
    for _ in range(20):
        batch(rate, clock, 8, 4.0)
    assert rate.per_second == pytest.approx(2, rel=0.01)


def test_single_quick_items_are_averaged_too():
    clock = Clock()
    rate = MovingRate(clock)
    for _ in range(5000):
        clock.now += 0.002
        rate.advance(1)
    assert rate.per_second == pytest.approx(500, rel=0.02)


def test_the_bar_shows_it(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("clinometer.cli.console.MovingRate", lambda: MovingRate(clock))
    progress = LiveProgress()
    progress.start("drawing", 64, 0)
    clock.now += 16
    for _ in range(32):
        progress.advance(1)
    page = io.StringIO()
    Console(file=page, width=160).print(progress._bars.make_tasks_table(progress._bars.tasks))
    assert "2.0/s" in page.getvalue()
    assert "left 0:00:16" in page.getvalue()


def test_a_terminal_shows_something_until_the_first_stage(monkeypatch):
    progress, page = LiveProgress(), io.StringIO()
    monkeypatch.setattr(progress, "_console", Console(file=page, width=160, force_terminal=True))
    progress._bars.live.console = progress._console
    with progress:
        assert [task.description for task in progress._bars.tasks] == ["getting ready"]
        progress.start("drawing", 4, 0)
        assert [task.description for task in progress._bars.tasks] == ["drawing"]


class Log(io.StringIO):
    """A log that tells when a line with some words has come."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words, self.there = words, threading.Event()

    def write(self, text: str) -> int:
        length = super().write(text)
        if self.words in self.getvalue():
            self.there.set()
        return length


@pytest.mark.parametrize(
    ("begun", "said"),
    [
        (False, "getting ready: at work for 0:00:0"),
        (True, "drawing: 32 of 64, 2.0/s, 0:00:16 left"),
    ],
)
def test_a_log_hears_now_and_then_how_far_the_work_is(monkeypatch, begun, said):
    """Whoever waits for the words waits for the event; nothing here rests on how fast the machine is."""
    clock, log = Clock(), Log(said)
    monkeypatch.setattr("clinometer.cli.console.MovingRate", lambda: MovingRate(clock))
    progress = LiveProgress(say_every=0.001)
    monkeypatch.setattr(progress, "_console", Console(file=log, width=160))
    with progress:
        if begun:
            progress.start("drawing", 64, 0)
            clock.now += 16
            progress.advance(32)
        assert log.there.wait(600), log.getvalue()


def test_a_log_tells_a_stage_of_one_piece_and_the_time_between_stages(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("clinometer.cli.console.monotonic", lambda: clock.now)
    monkeypatch.setattr("clinometer.cli.console.MovingRate", lambda: MovingRate(clock))
    progress = LiveProgress()
    assert SAY_EVERY == 30
    progress.start("scoring", 1, 0)
    clock.now += 90
    assert progress._where() == "scoring: at work for 0:01:30"
    progress.advance(1)
    progress.finish()
    clock.now += 30
    assert progress._where() == "between stages: at work for 0:00:30"
