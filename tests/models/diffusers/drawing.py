"""Tiny pipelines opened and drawn from, and how far two drawings are apart."""

from __future__ import annotations

import numpy as np

from clinometer.models import GenerationRequest
from clinometer.models.diffusers.pipeline import load

PROMPTS = ["a cook", "an image of a very old firefighter", "a man"]
REQUESTS = [GenerationRequest(str(index), prompt, 100 + index) for index, prompt in enumerate(PROMPTS)]


def opened(families, name, **options):
    sizes = {} if name == "unclip" else {"height": 32, "width": 32}
    priors = {"prior_steps": 2} if name in ("unclip", "kandinsky-2.2") else {}
    return load(str(families(name)), **({"steps": 2, "batch_size": 3} | sizes | priors | options))


def draw(generator, requests=REQUESTS):
    results = list(generator.generate(requests))
    assert [(result.status, result.reason) for result in results] == [("ok", None)] * len(requests)
    return [np.asarray(result.image, int) for result in results]


def furthest(first, second):
    return max(int(np.abs(a - b).max()) for a, b in zip(first, second, strict=True))


def changed(generator, call):
    """The generator over the same pipeline, whose call is ``call(its own call, arguments)``."""
    kind = type(generator.pipeline)
    own = kind.__call__
    body = {"__call__": lambda self, **arguments: call(lambda **given: own(self, **given), arguments)}
    generator.pipeline.__class__ = type(kind.__name__, (kind,), body)
    return generator
