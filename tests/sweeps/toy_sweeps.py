"""Painters at settings of their own, and sweeps of them."""

from __future__ import annotations

import dataclasses
import json

from clinometer.models.protocols import GenerationResult
from tests import quick
from tests.toys import Eye, Painter, paint, toy_suite

SUITE = toy_suite(target=4, attribute=3, concepts=4)
SUITES = {"toy": SUITE}
AXES = {"suite": "toy", "model": ["plain", "redder"], "seed": [0, 1]}


class Shifted(Painter):
    """The painter, its targets redder by ``guidance`` tenths: the same noise, another setting."""

    def __init__(self, guidance=0.0, name="shifted", stop_after=None):
        super().__init__(name=name)
        self.guidance, self.stop_after = guidance, stop_after
        self.card = dataclasses.replace(self.card, settings={"guidance_scale": guidance})

    def generate(self, requests):
        for request in requests:
            if self.stop_after is not None and self.drawn >= self.stop_after:
                raise KeyboardInterrupt
            self.drawn += 1
            words = request.prompt.split()
            lean = words[-2:-1] == ["lean"]
            prompt = f"lean {float(words[-1]) + self.guidance / 10}" if lean else request.prompt
            yield GenerationResult(request.id, "ok", paint(prompt, request.seed))


class Broken(Shifted):
    """It cannot draw."""

    def generate(self, requests):
        raise RuntimeError("no such kernel")
        yield


def painters(**changed):
    """The models of `AXES`."""
    return {"plain": Shifted(name="plain"), "redder": Shifted(1.0, name="redder")} | changed


def swept(out, axes=None, *, models=None, encoder=None, **asked):
    """A sweep of toys."""
    return quick.sweep(
        {"axes": AXES | (axes or {}), **asked},
        out,
        models=models or painters(),
        suites=SUITES,
        encoder=encoder or Eye(),
    )


def contents(folder):
    """Every file of a folder that says what was found, by name; times, and the order of images drawn, are left out."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name in ("scores.csv", "plan.parquet", "table.csv", "differences.csv", "sweep.html")
    }


def record(out):
    return json.loads((out / "sweep.json").read_text())
