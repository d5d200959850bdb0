"""Workers that stay for the next test: each that starts imports what its models need, which takes longer than the work.

A test that asks for `kept_workers` audits with them wherever it says ``workers=``. A worker that dies is replaced, and
one that is still at work when its audit ends goes with it.
"""

from functools import partial

import pytest

from clinometer.pipeline.engines.dispatch import LocalEngine

MOST = 3


class KeptEngine(LocalEngine):
    """An engine of processes that others had before, and others will have."""

    def __init__(self, slots, workers, gpus=()):
        assert not gpus
        self.workers, self._slots = workers, slots[:workers]

    def close(self):
        for slot in self._slots:
            if slot._unit is not None and not slot._unit.done():
                slot.kill()
                slot.end()


@pytest.fixture(scope="module")
def slots():
    engine = LocalEngine(MOST)
    yield engine._slots
    engine.close()


@pytest.fixture
def kept_workers(slots, monkeypatch):
    monkeypatch.setattr("clinometer.pipeline.engines.LocalEngine", partial(KeptEngine, slots))


@pytest.fixture
def fresh_workers(monkeypatch):
    """For a test of how workers start, where those around it keep theirs."""
    monkeypatch.setattr("clinometer.pipeline.engines.LocalEngine", LocalEngine)
