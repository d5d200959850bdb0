"""What a T2IAT study is made of: names, and each encoder's embeddings by name."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TypeVar

import numpy as np

from clinometer.stats.distinct import drawn_once, signatures


@dataclass(frozen=True)
class DesignedTest:
    """A test of concept ``x`` against concept ``y``."""

    name: str
    x: str
    y: str


@dataclass(frozen=True)
class T2iatDesign:
    """A T2IAT study without its prompts' texts.

    Attributes
    ----------
    concepts : the stimuli of each concept.
    tests : differential associations asked for; may be none.
    a, b : the two attributes; positive leans to ``a``.
    margin : size below which an association counts as none; None if the suite names none.
    missing : by stimulus, its neutral images that were asked for and are not there; where it is not named, none.
    """

    concepts: Mapping[str, tuple[str, ...]]
    tests: tuple[DesignedTest, ...]
    a: str
    b: str
    margin: float | None = None
    missing: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class T2iatEmbeddings:
    """What one encoder sees.

    Attributes
    ----------
    neutral : (images × dim) by stimulus; no rows where no image could be made.
    attribute : (images × dim) by (stimulus, attribute).
    neutral_texts : (dim,) by stimulus; empty where the encoder reads no text.
    attribute_texts : (words × dim) by (stimulus, attribute); empty where the encoder reads no text.
    repeats : by stimulus, neutral images that are another one again and are left out already.
    """

    encoder: str
    neutral: Mapping[str, np.ndarray]
    attribute: Mapping[tuple[str, str], np.ndarray]
    neutral_texts: Mapping[str, np.ndarray]
    attribute_texts: Mapping[tuple[str, str], np.ndarray]
    repeats: Mapping[str, int] = field(default_factory=dict)


Key = TypeVar("Key", bound=Hashable)


class _Chosen(Mapping[Key, np.ndarray]):
    """Some rows of each array, (None: all of them), taken when it is asked for."""

    def __init__(self, arrays: Mapping[Key, np.ndarray], rows: Mapping[Key, np.ndarray | None]) -> None:
        self._arrays, self._rows = arrays, rows

    def __getitem__(self, key: Key) -> np.ndarray:
        own = self._rows[key]
        return self._arrays[key] if own is None else self._arrays[key][own]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def counted_once(
    *runs: Sequence[T2iatEmbeddings], stimuli: Sequence[str], groups: tuple[str, str]
) -> tuple[list[T2iatEmbeddings], ...]:
    """Some stimuli's embeddings with each picture once: what all encoders of a run see as one is one.

    Of several runs the i-th pictures are partners, and a pair counts where either picture is new in its own run.
    """

    def kept(arrays: Callable[[T2iatEmbeddings], np.ndarray]) -> np.ndarray | None:
        images = [[signatures(arrays(encoder)) for encoder in run] for run in runs]
        own = reduce(np.intersect1d, (drawn_once(of_run)[0] for of_run in images))
        return None if len(own) == len(images[0][0]) else own

    neutral = {name: kept(lambda e, name=name: e.neutral[name]) for name in stimuli}  # type: ignore[misc]
    keys = [(name, group) for name in stimuli for group in groups]
    attribute = {key: kept(lambda e, key=key: e.attribute[key]) for key in keys}  # type: ignore[misc]

    def repeats(encoder: T2iatEmbeddings, name: str, own: np.ndarray | None) -> int:
        return encoder.repeats.get(name, 0) + (0 if own is None else len(encoder.neutral[name]) - len(own))

    return tuple(
        [
            replace(
                encoder,
                neutral=_Chosen(encoder.neutral, neutral),
                attribute=_Chosen(encoder.attribute, attribute),
                repeats={name: repeats(encoder, name, own) for name, own in neutral.items()},
            )
            for encoder in run
        ]
        for run in runs
    )
