"""A paper reproduced by toys in a process that is killed: ``python -m tests.papers.killed drawing|scoring OUT``."""

from __future__ import annotations

import os
import signal
import sys

from clinometer.studies.leaning import pair_and_axes
from tests.papers.toy_papers import Artist, reproduced

FEW = {"concepts": 1}
"""One concept of each category: the way is the same."""


def die(*_: object, **__: object) -> None:
    """End as of ``kill -9``: nothing is tidied up."""
    os.kill(os.getpid(), signal.SIGKILL)


class Mortal(Artist):
    """It is killed after some pictures, the first two of which are timed."""

    def generate(self, requests):
        for result in super().generate(requests):
            if self.drawn > 40:
                die()
            yield result


if __name__ == "__main__":
    when, out = sys.argv[1:]
    pair_and_axes.mcas_study = die
    reproduced("mcas", out, Mortal() if when == "drawing" else Artist(), **FEW)
