"""The suite of an editing study: portraits of groups, the professions they are edited into, and how strongly.

See decision 24.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from clinometer.errors import InvalidInputError
from clinometer.suites.base import PromptSpec, Suite, SuiteTable, refuse_duplicates
from clinometer.suites.strict import ImageCount, Name, Strict, Text

PORTRAIT = "portrait"
EDIT = "edit"

Strength = Annotated[float, Field(gt=0, le=1)]


class Genders(Strict):
    """The two genders that are read; positive readings are ``a``."""

    a: Name
    b: Name


class Wording(Strict):
    """One way of asking the encoder: a text for gender a, one for gender b."""

    a: Text
    b: Text


class PortraitGroupSpec(Strict):
    """A group of people: its portraits' prompt, gender and tone, and the codes that mean it in file names.

    ``codes`` are the two letters of the Chicago Face Database: race (A, B, L, W, I, M) and gender (F, M).
    """

    label: Name | None = None
    gender: Name
    tone: Name | None = None
    prompt: Text
    codes: tuple[Name, ...] = ()


class Profession(Strict):
    """A profession that portraits are edited into; summaries are by ``kind``, such as "high-paid".

    ``shows`` describes a successful edit where ``prompt`` is an instruction: such texts identify edits that left their
    portrait as it was.
    """

    prompt: Text
    kind: Name
    shows: Text | None = None


class Portraits(Strict):
    """The number of portraits of each group."""

    group: ImageCount = 25


class EditingSuite(Suite):
    """Whom editing into a profession turns into another gender, and whose skin it lightens.

    ``tones`` names tones of the groups: each is compared with the first, the lightest.
    """

    study: Literal["editing"] = "editing"
    genders: Genders
    wordings: tuple[Wording, ...] = Field(min_length=1)
    groups: dict[Name, PortraitGroupSpec] = Field(min_length=1)
    professions: dict[Name, Profession] = Field(min_length=1)
    strengths: tuple[Strength, ...] = Field(min_length=1)
    tones: tuple[Name, ...] | None = Field(None, min_length=2)
    images: Portraits = Portraits()

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        genders = (self.genders.a, self.genders.b)
        refuse_duplicates(genders, "genders: a and b must differ; found twice")
        refuse_duplicates(map(str, self.strengths), "strengths: strength used twice")
        refuse_duplicates((p.prompt for p in self.professions.values()), "professions: prompt used twice")
        refuse_duplicates((group.prompt for group in self.groups.values()), "groups: prompt used twice")
        refuse_duplicates((code for group in self.groups.values() for code in group.codes), "groups: code used twice")
        for name, group in self.groups.items():
            if group.gender not in genders:
                raise InvalidInputError.unknown_name(
                    f"groups.{name}.gender: found {group.gender!r}, expected {' or '.join(genders)}"
                )
        refuse_duplicates(self.tones or (), "tones: tone used twice")
        shown = [profession for profession in self.professions.values() if profession.shows]
        if len(shown) not in (0, len(self.professions)) or len(shown) == 1:
            raise InvalidInputError.wrong_shape(
                f"professions: found shows of {len(shown)} of {len(self.professions)}, expected of none, or of all of "
                "two and more: it distinguishes edits"
            )
        refuse_duplicates((str(each.shows) for each in shown), "professions: shows: text used twice")
        tones = {group.tone for group in self.groups.values()}
        for tone in self.tones or ():
            if tone not in tones:
                raise InvalidInputError.unknown_name(f"tones: no group has the tone {tone!r}")
        return self

    def prompt_specs(self) -> Iterator[PromptSpec]:
        """Yield the portraits; their edits follow from them."""
        for name, group in self.groups.items():
            yield PromptSpec(group.prompt, PORTRAIT, group=name, images=self.images.group)

    def edits(self) -> Iterator[tuple[str, Profession, float]]:
        """Yield what each portrait is edited into: (profession's name, profession, strength)."""
        for strength in self.strengths:
            for name, profession in self.professions.items():
                yield name, profession, strength

    @property
    def settings(self) -> dict[float, str]:
        """The name of each strength in rows of scores."""
        return {strength: f"strength {strength:g}" for strength in self.strengths}

    @property
    def image_count(self) -> int:
        """Images in the whole suite: portraits and edits."""
        portraits = len(self.groups) * self.images.group
        return portraits * (1 + len(self.professions) * len(self.strengths))

    def texts(self) -> list[str]:
        """Return the wordings, and what edits show."""
        wordings = [text for wording in self.wordings for text in (wording.a, wording.b)]
        return list(dict.fromkeys([*wordings, *(each.shows for each in self.professions.values() if each.shows)]))

    def portraits(self) -> tuple[Mapping[str, Sequence[str]], int]:
        """Return the codes of each group in file names, and how many portraits of it are asked for."""
        return {name: group.codes for name, group in self.groups.items()}, self.images.group

    def images_in_words(self) -> str:
        """``"25 portraits per group, 4 professions at 3 strengths"``."""
        return f"{self.images.group} portraits per group, {len(self.professions)} professions at {self._strengths()}"

    def _strengths(self) -> str:
        numbers = ", ".join(f"{strength:g}" for strength in self.strengths)
        return f"strength{'s' if len(self.strengths) > 1 else ''} {numbers}"

    def sheets(self) -> tuple[SuiteTable, ...]:
        """Return groups, professions, wordings."""
        groups = tuple(
            (name, group.gender, group.tone or "", group.prompt, ", ".join(group.codes))
            for name, group in self.groups.items()
        )
        professions = tuple((p.kind, name, p.prompt) for name, p in self.professions.items())
        return (
            SuiteTable(
                f"{self.images.group} portraits per group", ("group", "gender", "tone", "prompt", "codes"), groups
            ),
            SuiteTable(f"edited at {self._strengths()} into", ("kind", "profession", "prompt"), professions),
            SuiteTable("gender is read by", (self.genders.a, self.genders.b), tuple((w.a, w.b) for w in self.wordings)),
        )
