"""What an association study is made of: names, and each encoder's embeddings by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class DesignedTest:
    """A test of concept ``x`` against concept ``y``."""

    name: str
    x: str
    y: str


@dataclass(frozen=True)
class AssociationDesign:
    """An association study without its prompts' texts.

    Attributes
    ----------
    concepts : the stimuli of each concept.
    tests : differential associations asked for; may be none.
    a, b : the two attributes; positive leans to ``a``.
    margin : size below which an association counts as none; None if the suite names none.
    """

    concepts: Mapping[str, tuple[str, ...]]
    tests: tuple[DesignedTest, ...]
    a: str
    b: str
    margin: float | None = None


@dataclass(frozen=True)
class AssociationEmbeddings:
    """What one encoder sees.

    Attributes
    ----------
    neutral : (images × dim) by stimulus; no rows where no image could be made.
    attribute : (images × dim) by (stimulus, attribute).
    neutral_texts : (dim,) by stimulus; empty where the encoder reads no text.
    attribute_texts : (words × dim) by (stimulus, attribute); empty where the encoder reads no text.
    """

    encoder: str
    neutral: Mapping[str, np.ndarray]
    attribute: Mapping[tuple[str, str], np.ndarray]
    neutral_texts: Mapping[str, np.ndarray]
    attribute_texts: Mapping[tuple[str, str], np.ndarray]
