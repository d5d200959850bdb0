"""A reader that tells day from night: it answers any question whose answers have the labels ``day`` and ``night``."""

import numpy as np

from clinometer.errors import ModelError
from clinometer.models import Card
from clinometer.models.readers import Reading
from clinometer_example.metric import brightness


class Daylight:
    """Reads an image as day where it is brighter than half grey."""

    card = Card(kind="reader", name="daylight", family="daylight/1")
    batch_size = 32

    def possible_answers(self, question):
        """Name the groups that it can answer with."""
        meant = {name: answer.group for answer in question.answers for name in answer.names}
        if not {"day", "night"} <= meant.keys():
            raise ModelError(f"daylight: question {question.name} has no answers called day and night")
        return meant["day"], meant["night"]

    def read(self, images, question):
        """Answer the question of each image."""
        day, night = self.possible_answers(question)
        return [Reading(day if brightness(np.asarray(image.convert("RGB"))) > 0.5 else night) for image in images]


def load(source, device=None):
    """Make the reader."""
    return Daylight()
