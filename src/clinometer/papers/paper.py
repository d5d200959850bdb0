"""The shape of a paper's file: the runs that it takes, and what it prints, in its order."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final, Literal

import yaml
from pydantic import Field

from clinometer.errors import InvalidInputError
from clinometer.published import Published, published
from clinometer.suites.strict import ImageCount, Name, Strict, Text

_DATA: Final = resources.files("clinometer.papers") / "data"

ALL: Final = "all"
"""The name of all papers together."""

Key = Literal["model", "column", "category", "concept", "group", "setting"]


class PaperRun(Strict):
    """A run that a paper takes.

    Attributes
    ----------
    suite : the built-in suite that asks what the paper asked; its protocol says the rest.
    quick : numbers of images of a quick look, by the suite's names for them.
    rehearsal : what replaces the suite on the reference model, whose words are few: ``"words"``, the same suite with
        the concepts of rehearsal.yaml; a suite of the same design that lies beside the papers' files, of which those
        tests are asked that ``renamed`` names; or a built-in suite.
    renamed : for such a suite, its name for each name that the paper's tables are looked up by.
    needs : what has to be brought, in a sentence: without given portraits there is no such run.
    """

    suite: Name
    quick: dict[Name, ImageCount]
    rehearsal: Name = "words"
    renamed: dict[Name, Name] = Field(default_factory=dict)
    needs: Text | None = None


class CountedRun(Strict):
    """A run of counts, from labels of given pictures: the column that holds the labels, and what has to be brought."""

    label: Name
    needs: Text


class RaterTask(Strict):
    """A task for raters: its title, and the runs whose pictures it shows, which compare the same two groups."""

    title: Text
    runs: tuple[Name, ...] = Field(min_length=1)


class Raters(Strict):
    """What a paper asked people: the question, how many pictures are shown at once, and how many raters see each."""

    question: Text
    shown: ImageCount
    raters: ImageCount
    tasks: tuple[RaterTask, ...] = Field(min_length=1)


class Part(Strict):
    """Something that the paper prints: what it calls it, and its title."""

    heading: Text
    title: Text
    note: Text | None = None

    @property
    def place(self) -> str:
        """Its anchor, and the name of its files: ``"table-5"``."""
        return "-".join(re.findall(r"[a-z0-9]+", self.heading.lower()))


class Correlated(Strict):
    """Two columns of a table whose orders the paper correlates by Kendall's τ, and what it prints of that."""

    people: Name
    machine: Name
    printed: Text


class PrintedTable(Part):
    """A table of numbers, laid out as the paper has it.

    ``printed`` is the file in ``published``; ``rows`` and ``columns`` say what the rows and the columns are of, outer
    first. ``labels`` are the paper's words for what the file calls otherwise; of a column in its order, with `` | ``
    between lines of its head. ``correlated`` : columns whose order over the rows is compared. ``tested`` : a column of
    p-values, whose q over all rows follows as column q.
    """

    printed: Name
    rows: tuple[Key, ...] = Field(min_length=1)
    columns: tuple[Key, ...] = Field(min_length=1)
    labels: dict[Name, Text] = Field(default_factory=dict)
    correlated: Correlated | None = None
    tested: Name | None = None


class CountedTable(Part):
    """A table of a run of counts: shares by model, concept and prompt, and the tests of whether prompts change them."""

    counted: Name
    rows: tuple[Key, ...] = ("model", "concept")
    columns: tuple[Key, ...] = ("setting", "column")
    labels: dict[Name, Text] = Field(default_factory=dict)


class ComponentTable(Part):
    """A table of words about components of a score, with what the runs measured of each."""

    run: Name
    metric: Name
    columns: tuple[Text, ...]
    components: dict[Name, tuple[Text, ...]]


class Drawing(Part):
    """Figures of a run's own report, which have the form of the paper's figure.

    ``legend`` says what marks, lines and bars are; ``keys`` names, by figure, the section's own key of its lines.
    """

    run: Name
    section: Name
    figures: tuple[Name, ...] = Field(min_length=1)
    legend: Text
    keys: dict[Name, Name] = Field(default_factory=dict)


class RowsDrawing(Part):
    """A figure of single numbers: those of a component of a metric that have a concept, of one group if one is named.

    ``symbol`` is what they are called, and ``ends`` are the sides that a negative and a positive number lean to;
    ``without`` is what names begin with and the figure leaves out; ``legend`` says what marks and bars are.
    """

    run: Name
    metric: Name
    component: Name
    group: Name | None = None
    symbol: Text
    ends: tuple[str, str] = ("", "")
    without: str = ""
    legend: Text


class Faces(Part):
    """Average faces as a run's own report has them, in the section ``faces``."""

    run: Name
    faces: Name


AnyPart = PrintedTable | CountedTable | ComponentTable | Drawing | RowsDrawing | Faces


class Paper(Strict):
    """A paper: how it is cited, the runs that it takes by their names, and what it prints.

    ``counted`` are runs of counts, of a paper whose pictures are given and labelled.
    """

    name: Name
    title: Text
    cited: Text
    runs: dict[Name, PaperRun] = Field(default_factory=dict)
    counted: dict[Name, CountedRun] = Field(default_factory=dict)
    raters: Raters | None = None
    contents: tuple[AnyPart, ...] = Field(min_length=1)

    @property
    def published(self) -> Published:
        """Its printed numbers, the models they are of, and what is known to be wrong in print."""
        return published(self.name)


@cache
def _papers() -> dict[str, Paper]:
    order = yaml.safe_load((_DATA / "order.yaml").read_text(encoding="utf-8"))
    read = (yaml.safe_load((_DATA / f"{name}.yaml").read_text(encoding="utf-8")) for name in order)
    return {paper.name: paper for paper in map(Paper.model_validate, read)}


def paper_names() -> list[str]:
    """List the papers that can be reproduced."""
    return list(_papers())


def load_paper(name: str) -> Paper:
    """Return a paper by its name.

    Raises
    ------
    InvalidInputError
        There is no such paper here.
    """
    papers = _papers()
    if name not in papers:
        raise InvalidInputError.expected_one_of([*papers, ALL], name, field="paper")
    return papers[name]


def rehearsal_file(name: str) -> Path | None:
    """Return the file of a suite that serves rehearsals alone; None where there is none of that name."""
    place = Path(str(_DATA / f"{name}.yaml"))
    return place if place.is_file() else None


@cache
def rehearsed_words() -> tuple[dict[str, str], dict[str, str]]:
    """Return the words of the reference model that replace each concept of the papers, and each pair of prompts.

    Both are names of ``reference.vocabulary()["concepts"]``.
    """
    read = yaml.safe_load((_DATA / "rehearsal.yaml").read_text(encoding="utf-8"))
    return read["concepts"], read["pairs"]
