"""A generator that draws stripes: ``--model stripes:4``."""

import numpy as np
from PIL import Image

from clinometer.models import Card, GenerationResult


class Stripes:
    """Draws horizontal stripes of random colours, ``width`` pixels each."""

    batch_size = 16

    def __init__(self, width):
        # All that changes an image belongs in the card: another card is another model.
        self.card = Card(kind="generator", name="stripes", family="stripes/1", settings={"width": width})
        self.width = width

    def generate(self, requests):
        """Yield a result for each request; its seed alone decides the noise."""
        for request in requests:
            colours = np.random.default_rng(request.seed).integers(0, 256, (64 // self.width, 3), np.uint8)
            rows = np.repeat(colours, self.width, axis=0)
            image = Image.fromarray(np.repeat(rows[:, None], 64, axis=1))
            yield GenerationResult(request.id, "ok", image)


def load(source):  # it takes no options: --steps and the others are refused by name
    """Make the generator; ``source`` is what follows the colon."""
    return Stripes(int(source or 8))
