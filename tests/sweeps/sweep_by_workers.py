"""A sweep of toys on two workers, as a program: a test kills it."""

from __future__ import annotations

import sys
from pathlib import Path

import clinometer as cm
from tests import quick
from tests.sweeps.toy_sweeps import AXES, SUITES, Shifted
from tests.toys import Eye, wait_to_be_killed


class Halting(Shifted):
    """A painter that waits to be killed once it has drawn so many images in a process."""

    halt = -1

    def generate(self, requests):
        for result in super().generate(requests):
            if self.drawn == self.halt:
                wait_to_be_killed()
            yield result


def sweep_by_workers(out: Path, halt: int = -1) -> cm.Sweep:
    """The sweep."""
    models = {"plain": Halting(name="plain"), "redder": Halting(1.0, name="redder")}
    for model in models.values():
        model.halt = halt
    return quick.sweep({"axes": AXES}, out, models=models, suites=SUITES, encoder=Eye(), workers=2)


if __name__ == "__main__":
    sweep_by_workers(Path(sys.argv[1]), int(sys.argv[2]))
