"""Steerability in colours: pictures asked for "men" are red and those for "women" green, as the eye reads them."""

from collections.abc import Sequence
from pathlib import Path

from clinometer.models.readers.encoders import EncoderReader
from clinometer.suites import Suite, suite_from_mapping
from tests.toys import Eye, Painter, paint


class Steered(Painter):
    """Draws who is named, but for ``deaf`` concepts: asked there for women, every second noise is a man's."""

    def __init__(self, deaf: Sequence[str] = (), *, name: str = "steered", refuse: str = "") -> None:
        super().__init__(name=name, refuse=refuse, batch_size=500)
        self.deaf = deaf

    def generate(self, requests):
        for request, result in zip(asked := list(requests), super().generate(asked), strict=True):
            concept, *group = request.prompt.split(", ")
            if group == ["women"] and concept in self.deaf and request.seed % 2 and result.image is not None:
                result.image.paste(paint("men", request.seed))
            yield result


def steerable(*, concepts: int = 4, images: int = 20, **changes: object) -> Suite:
    """Concepts a, b, …, asked for as they are, with men, and with women."""
    names = "abcdefghijklmnop"[:concepts]
    return suite_from_mapping({
        "study": "steerability", "name": "steered", "title": "Colours, asked for", "description": "Who is drawn.",
        "groups": {"man": {"label": "men", "words": ["he", "his"]},
                   "woman": {"label": "women", "words": ["she", "hers"]}},
        "images": {"neutral": images, "asked": images}, "margin": 0.2,
        "templates": {"neutral": "{} lean 0.7", "asked": {"man": "{}, men", "woman": "{}, women"}},
        "categories": {"letters": {"concepts": [{"name": name, "phrase": name} for name in names]}},
        **changes,
    }, source="toy")  # fmt: skip


def write_labels(folder: Path, each: int = 30, groups: Sequence[str] = ("men", "women")) -> Path:
    """Write pictures whose group is known, and the list that says so."""
    folder.mkdir()
    rows = ["file,group"]
    for group in groups:
        for number in range(each):
            paint(group, number).save(folder / f"{group}{number}.png")
            rows.append(f"{group}{number}.png,{'man' if group == 'men' else 'woman'}")
    (folder / "labels.csv").write_text("\n".join(rows))
    return folder / "labels.csv"


def eye_reader() -> EncoderReader:
    """Read by the eye's cosines."""
    return EncoderReader(Eye())
