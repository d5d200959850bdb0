"""A sweep of toys on two workers, as a program: a test kills it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import clinometer as cm
from tests.sweeps.toy_sweeps import AXES, SUITES, Shifted
from tests.toys import Eye


class Slow(Shifted):
    """A painter that takes its time."""

    delay = 0.0

    def generate(self, requests):
        for result in super().generate(requests):
            time.sleep(self.delay)
            yield result


def sweep_by_workers(out: Path, delay: float = 0.0) -> cm.Sweep:
    """The sweep."""
    models = {"plain": Slow(name="plain"), "redder": Slow(1.0, name="redder")}
    for model in models.values():
        model.delay = delay
    return cm.sweep({"axes": AXES}, out, models=models, suites=SUITES, encoder=Eye(), workers=2)


if __name__ == "__main__":
    sweep_by_workers(Path(sys.argv[1]), float(sys.argv[2]))
