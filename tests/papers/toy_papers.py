"""Papers reproduced by painters: a few concepts of the paper's own suites, so that a paper takes seconds."""

from __future__ import annotations

import clinometer as cm
from tests.quick import options
from tests.toys import Eye, Painter

SD2 = "stabilityai/stable-diffusion-2"


class Artist(Painter):
    """A painter that can be killed, refuses nothing, and says how many steps it takes."""

    def __init__(self, name=SD2, stop_after=None):
        super().__init__(name=name)
        self.card.settings.update({"steps": 10, "guidance_scale": 7.5})
        self.stop_after = stop_after

    def generate(self, requests):
        for result in super().generate(requests):
            if self.stop_after is not None and self.drawn > self.stop_after:
                raise KeyboardInterrupt
            yield result


def reproduced(papers, out, artist=None, *, models=(SD2,), **asked):
    """Reproduce papers by a painter that goes by the name of the paper's model."""
    artist = artist or Artist()
    objects = asked.pop("objects", None) or {SD2: artist}
    return cm.reproduce(papers, out, models=models, quick=True, objects=objects, **options(encoder=Eye()) | asked)
