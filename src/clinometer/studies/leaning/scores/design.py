"""What a study measures: targets, groups and embeddings, checked once, and how they are resampled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, pairwise
from math import ceil, prod

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.stats.association import unit_vectors
from clinometer.stats.blocks import ArrayStore, InMemory, sizes_of
from clinometer.stats.dependence import SAVED_AGAIN, DrawOrder, by_batch


@dataclass(frozen=True)
class TargetDesign:
    """A target: its name, its category and the group that the literature ties it to, where there is one.

    ``missing`` : its images that were asked for and are not there.
    """

    name: str
    category: str
    stereotype: str | None = None
    missing: int = 0


@dataclass(frozen=True)
class Design:
    """Targets and groups of a study.

    Attributes
    ----------
    targets : in the order of the embeddings.
    groups : all groups, in a fixed order; ``a``, ``b`` and ``third`` are among them. Positive leans to ``a``.
    pairs : per group, the pair of each attribute prompt, or None where it has none.
    prompts : per group, the text of each attribute prompt (a name for its place on the plane).
    margin : the |MCAS| below which a leaning counts as none.
    axes : where the groups are cells of a product, the levels of each axis; then ``a``, ``b`` and ``third`` are left
        empty, for every axis is measured by itself, and a pair of cells may differ on several.
    cells : the level of each group on each axis, in the order of the axes.
    missing_attributes : by group, its images that were asked for and are not there; where it is not named, none.
    """

    targets: tuple[TargetDesign, ...]
    groups: tuple[str, ...]
    a: str = ""
    b: str = ""
    third: str | None = None
    pairs: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    prompts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    margin: float | None = None
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cells: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing_attributes: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.targets:
            raise InvalidInputError.too_few("targets: expected at least one")
        if self.axes or self.cells:
            if wrong := wrong_product(self.axes, self.cells, self.groups):
                raise InvalidInputError.duplicate(wrong)
            if self.a or self.b or self.third:
                raise InvalidInputError.conflict(
                    f"a, b, third: found {self.a!r}, {self.b!r}, {self.third!r} beside axes; two cells may differ on "
                    "several axes at once, so leave them empty: every axis is measured by itself"
                )
            return
        for role in ("a", "b", "third"):
            group = getattr(self, role)
            if group not in self.groups and not (role == "third" and group is None):
                raise InvalidInputError.unknown_name(
                    f"{role}: no group named {group!r}; groups are {', '.join(self.groups)}"
                )
        if self.a == self.b or self.third in (self.a, self.b):
            raise InvalidInputError.duplicate("a, b, third: expected different groups")

    def index(self, group: str) -> int:
        """Find the position of a group on the last axis of the tensor of mean cosines."""
        return self.groups.index(group)


@dataclass(frozen=True)
class EncoderEmbeddings:
    """Everything one encoder saw, as raw embeddings (rows; not normalised).

    Attributes
    ----------
    encoder : its name.
    target_images : per target (n_t × dim); n_t may be 0. Those of :class:`~clinometer.stats.blocks.Blocks` are
        read when they are needed, one target at a time.
    target_texts : (T × dim), the text of each target; None if the encoder reads no text.
    group_images : per group, per attribute prompt (m × dim); m may be 0.
    group_words : per group (w × dim).
    group_texts : per group (prompts × dim), the attribute prompts as texts: their places on the plane need
        them.
    blank_text : (dim,), the empty prompt; None where it was not embedded.
    unfit : why this encoder cannot judge a target (by its name), or any (under ``""``): it was not made for these texts
        or images. See :mod:`clinometer.studies.leaning.scores.encoder_check`.
    target_copies : per target, how often each of its pictures was drawn (n_t,); None where each was drawn once.
    all_differ : whether somebody has looked that no picture is there twice, see
        :mod:`clinometer.studies.leaning.scores.measuring`.
    target_batches : per target, which request, session or cache each of its pictures came from, any labels (n_t,):
        batches are then the units of chance. Labels that all differ say that pictures are independent. None where
        nobody knows: then rows are taken to stand in the order in which they were drawn, and that is looked at
        (:mod:`clinometer.stats.dependence`).
    saved_again : how far saving a picture again moves its unit vector; two that are closer may be one
        (:mod:`clinometer.stats.dependence`).
    order : what the order of the pictures said, where somebody has looked.
    joined : per target, the pictures that are one, by their positions before they were counted once; nothing where
        nobody has looked.
    """

    encoder: str
    target_images: Sequence[np.ndarray]
    target_texts: np.ndarray | None
    group_images: Mapping[str, tuple[np.ndarray, ...]]
    group_words: Mapping[str, np.ndarray] | None = None
    group_texts: Mapping[str, np.ndarray] | None = None
    blank_text: np.ndarray | None = None
    unfit: Mapping[str, str] = field(default_factory=dict)
    target_copies: tuple[np.ndarray, ...] | None = None
    all_differ: bool = False
    target_batches: tuple[np.ndarray, ...] | None = None
    saved_again: float = SAVED_AGAIN
    order: DrawOrder | None = None
    joined: tuple[tuple[np.ndarray, ...], ...] = ()

    @property
    def reads_text(self) -> bool:
        """Whether it has a text tower and was given texts."""
        return self.target_texts is not None and self.group_words is not None


TwoRuns = tuple[Sequence[EncoderEmbeddings], Sequence[EncoderEmbeddings]]
"""The embeddings of two runs by the same encoders."""


@dataclass(frozen=True)
class Layout:
    """The numbers of images, words and prompts, which all encoders of a study share.

    Attribute images stand in one long row, group by group and prompt by prompt, and so do the words. ``target_copies``
    and ``target_batches`` are those of the embeddings; empty where nobody has looked, and where no batch has two.
    """

    groups: tuple[str, ...]
    targets: tuple[str, ...]
    target_sizes: tuple[int, ...]
    prompt_sizes: tuple[tuple[int, ...], ...]
    word_counts: tuple[int, ...]
    target_copies: tuple[np.ndarray, ...] = field(default=(), compare=False)
    target_batches: tuple[np.ndarray, ...] = field(default=(), compare=False)

    def drawn_shift(self, t: int, scores: np.ndarray) -> float:
        """Return the mean over all of a target's images less that over different ones: 0 without repeats."""
        if not self.repeated(t) or not len(scores):
            return 0.0
        return float(np.average(scores, weights=self.target_copies[t]) - scores.mean())

    def repeated(self, t: int) -> int:
        """Count the repeated pictures of a target, which its size does not count."""
        return int(self.target_copies[t].sum()) - self.target_sizes[t] if self.target_copies else 0

    def batches(self, t: int) -> np.ndarray | None:
        """Return the batch of each image of a target; None where images are the units of chance."""
        return self.target_batches[t] if self.target_batches else None

    def batch_count(self, t: int) -> int:
        """Count the batches of a target's images; 0 where images are the units of chance."""
        return len(np.unique(self.target_batches[t])) if self.target_batches else 0

    def in_units(self, t: int, images: int) -> int:
        """Convert further images of a target to units of chance, if they came in batches like the others."""
        batches = self.batch_count(t)
        return ceil(images * batches / self.target_sizes[t]) if batches else images

    def units(self, t: int, values: np.ndarray) -> np.ndarray:
        """Return the values of a target's units of chance from those of its images (n × …): one a batch, if any."""
        return by_batch(values, self.batches(t))

    @property
    def image_counts(self) -> tuple[int, ...]:
        """Attribute images of each group."""
        return tuple(sum(sizes) for sizes in self.prompt_sizes)

    @property
    def image_slices(self) -> tuple[slice, ...]:
        """Columns of each group's attribute images."""
        return _slices(self.image_counts)

    @property
    def word_slices(self) -> tuple[slice, ...]:
        """Columns of each group's words."""
        return _slices(self.word_counts)

    @property
    def prompt_slices(self) -> tuple[slice, ...]:
        """Columns of each attribute prompt's images, over all groups."""
        return _slices(tuple(chain.from_iterable(self.prompt_sizes)))

    @property
    def prompt_groups(self) -> tuple[int, ...]:
        """Group of each attribute prompt, over all groups."""
        return tuple(g for g, sizes in enumerate(self.prompt_sizes) for _ in sizes)


def layout_of(encoders: Sequence[EncoderEmbeddings], design: Design, *, targets: bool = True) -> Layout:
    """Check all embeddings and return the counts they share; without ``targets``, no image of one is looked at.

    Raises
    ------
    InvalidInputError
        An array that is not 2-dimensional, NaN, infinity, a zero vector, dimensions that differ within an
        encoder, a group or a target too many or too few, encoders that saw different numbers of images. Names
        the encoder.
    """
    if not encoders:
        raise InvalidInputError.too_few("expected at least one", field="encoders")
    names = [embeddings.encoder for embeddings in encoders]
    if len(set(names)) < len(names) or "mean" in names:
        raise InvalidInputError.duplicate(
            f"expected different names, none of them 'mean', found {', '.join(names)}", field="encoders"
        )
    layouts = [_check_layout(embeddings, design, targets) for embeddings in encoders]
    first = next((lay for lay, e in zip(layouts, encoders, strict=True) if e.reads_text), layouts[0])
    for layout, embeddings in zip(layouts, encoders, strict=True):
        words_differ = embeddings.reads_text and layout.word_counts != first.word_counts
        if words_differ or (layout.target_sizes, layout.prompt_sizes) != (first.target_sizes, first.prompt_sizes):
            raise InvalidInputError.mismatch(
                f"encoder {embeddings.encoder}: not the same numbers of images or words as the others"
            )
    return first


def _check_layout(embeddings: EncoderEmbeddings, design: Design, targets: bool) -> Layout:
    where = f"encoder {embeddings.encoder}"
    if len(embeddings.target_images) != len(design.targets):
        raise InvalidInputError.wrong_shape(
            f"{where}: images of {len(embeddings.target_images)} targets, expected {len(design.targets)}"
        )
    for kind in ("group_images", "group_words", "group_texts"):
        by_group = getattr(embeddings, kind)
        missing = [] if by_group is None else [group for group in design.groups if group not in by_group]
        if missing:
            raise InvalidInputError.missing(f"{where}, {kind}: nothing for group {', '.join(missing)}")
    by_target = zip(design.targets, embeddings.target_images, strict=True) if targets else ()
    of_targets = ((f"target {target.name!r}", images) for target, images in by_target)
    named = chain(of_targets, _named_arrays(embeddings, design))
    dims = {array.shape[1] for name, array in named if _check_array(f"{where}, {name}", array)}
    if len(dims) > 1:
        raise InvalidInputError.wrong_shape(
            f"{where}: embeddings of different dimensions: {', '.join(map(str, sorted(dims)))}"
        )
    _check_texts(embeddings, design, where)
    words = embeddings.group_words
    return Layout(
        groups=design.groups,
        targets=tuple(target.name for target in design.targets),
        target_sizes=sizes_of(embeddings.target_images),
        prompt_sizes=tuple(tuple(map(len, embeddings.group_images[group])) for group in design.groups),
        word_counts=tuple(0 if words is None else len(words[group]) for group in design.groups),
        target_copies=embeddings.target_copies or (),
        target_batches=_check_batches(embeddings, design, where),
    )


def _check_batches(embeddings: EncoderEmbeddings, design: Design, where: str) -> tuple[np.ndarray, ...]:
    """Return the batches of all targets; nothing if no batch has two images."""
    batches = embeddings.target_batches or ()
    if batches and len(batches) != len(design.targets):
        raise InvalidInputError.wrong_shape(
            f"{where}: batches of {len(batches)} targets, expected {len(design.targets)}"
        )
    for target, labels, size in zip(design.targets, batches, sizes_of(embeddings.target_images), strict=False):
        if np.shape(labels) != (size,):
            raise InvalidInputError.wrong_shape(
                f"{where}, target {target.name!r}: batches of shape {np.shape(labels)}, expected one of each of its "
                f"{size} images"
            )
    return tuple(batches) if any(len(np.unique(labels)) < len(labels) for labels in batches) else ()


def check_target(embeddings: EncoderEmbeddings, design: Design, t: int, images: np.ndarray, first: int = 0) -> None:
    """Check the images of one target, the first of them number ``first``, which :func:`layout_of` did not look at.

    Raises as that does.
    """
    where = f"encoder {embeddings.encoder}"
    _check_array(f"{where}, target {design.targets[t].name!r}", images, first)
    dims = {images.shape[1], *(array.shape[1] for _, array in _named_arrays(embeddings, design) if len(array))}
    if len(images) and len(dims) > 1:
        raise InvalidInputError.wrong_shape(
            f"{where}: embeddings of different dimensions: {', '.join(map(str, sorted(dims)))}"
        )


def _named_arrays(embeddings: EncoderEmbeddings, design: Design) -> Iterator[tuple[str, np.ndarray]]:
    if embeddings.target_texts is not None:
        yield "target texts", embeddings.target_texts
    if embeddings.blank_text is not None:
        yield "blank text", embeddings.blank_text[None]
    for group in design.groups:
        yield from ((f"group {group!r}, prompt {i + 1}", x) for i, x in enumerate(embeddings.group_images[group]))
        if embeddings.group_words is not None:
            yield f"words of group {group!r}", embeddings.group_words[group]
        if embeddings.group_texts is not None:
            yield f"prompts of group {group!r}", embeddings.group_texts[group]


def _check_array(where: str, array: np.ndarray, first: int = 0) -> bool:
    """Refuse what no cosine can take; return whether there is any row. ``first`` : the number of its first row."""
    if array.ndim != 2:
        raise InvalidInputError.wrong_shape(
            f"{where}: expected embeddings (vectors × dim), found {array.ndim} dimensions"
        )
    if not np.isfinite(array).all():
        row = first + int(np.argmin(np.isfinite(array).all(axis=1)))
        raise InvalidInputError.not_finite(
            f"{where}: row {row} holds NaN or infinity; encode it again or leave the image out"
        )
    if not array.any(axis=1).all():
        row = first + int(np.argmin(array.any(axis=1)))
        raise InvalidInputError.not_finite(f"{where}: row {row} is a zero vector; a cosine needs non-zero vectors")
    return len(array) > 0


def _check_texts(embeddings: EncoderEmbeddings, design: Design, where: str) -> None:
    """Require one text per target, and one per attribute prompt."""
    if embeddings.target_texts is not None and len(embeddings.target_texts) != len(design.targets):
        raise InvalidInputError.wrong_shape(
            f"{where}: {len(embeddings.target_texts)} target texts, expected {len(design.targets)}"
        )
    for group in design.groups:
        n_prompts = len(embeddings.group_images[group])
        for kind, entries in (("pairs", design.pairs.get(group)), ("prompts", design.prompts.get(group))):
            if entries is not None and len(entries) != n_prompts:
                raise InvalidInputError.wrong_shape(
                    f"design, {kind} of group {group!r}: {len(entries)}, but it has {n_prompts} prompts"
                )
        if embeddings.group_texts is not None and len(embeddings.group_texts[group]) != n_prompts:
            raise InvalidInputError.wrong_shape(f"{where}: prompts of group {group!r}: expected {n_prompts} texts")


def _slices(counts: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(start, stop) for start, stop in pairwise(accumulate(counts, initial=0)))


def wrong_product(axes: Mapping[str, Sequence[str]], cells: Mapping[str, Sequence[str]], groups: Sequence[str]) -> str:
    """Explain what is wrong with axes and cells, in one line; empty if the groups are their complete product."""
    if len(axes) < 2 or any(len(levels) < 2 or len(set(levels)) < len(levels) for levels in axes.values()):
        return "axes: expected two or more, each of two or more different levels"
    if set(cells) != set(groups):
        return "cells: expected the levels of every group, and of no other"
    for group in groups:
        by_axis = zip(cells[group], axes.values(), strict=False)
        if len(cells[group]) != len(axes) or not all(level in levels for level, levels in by_axis):
            return f"cells: {group!r} is at {', '.join(cells[group])}; expected a level of each of {', '.join(axes)}"
    size = prod(map(len, axes.values()))
    if len(groups) != size or len({tuple(cells[group]) for group in groups}) != size:
        return f"groups: expected {size}, one for every combination of the axes' levels, found {len(groups)}"
    return ""


@dataclass(frozen=True)
class ResamplingSettings:
    """How often a study is resampled, from which seed; images from ``image_seed`` if it is given.

    What is linear in the mean cosines is never resampled, and needs the confidence alone. ``store`` makes what
    replicates wait in: memory, unless a caller has a file for them.

    Raises
    ------
    InvalidInputError
        A count is too small, or the confidence no probability.
    """

    n_resamples: int = 1
    n_permutations: int = 0
    seed: int = 0
    confidence: float = 0.95
    image_seed: int | None = None
    store: Callable[[], ArrayStore] = InMemory

    def __post_init__(self) -> None:
        for name, number, least in (("n_resamples", self.n_resamples, 1), ("n_permutations", self.n_permutations, 0)):
            if number < least:
                raise InvalidInputError.out_of_range(f"{name}: expected at least {least}, found {number}")
        if not 0 < self.confidence < 1:
            raise InvalidInputError.out_of_range(
                f"expected a number between 0 and 1, found {self.confidence}", field="confidence"
            )
        if self.seed < 0:
            raise InvalidInputError.out_of_range(f"expected 0 or more, found {self.seed}", field="seed")

    def rng(self, *names: str) -> np.random.Generator:
        """Make a random generator for one purpose, so that its draws do not depend on any others."""
        return np.random.default_rng([self.seed, *"\0".join(names).encode()])

    def image_rng(self, *names: str) -> np.random.Generator:
        """Make the random generator for resampling images."""
        seed = self.seed if self.image_seed is None else self.image_seed
        return replace(self, seed=seed).rng(*names)


@dataclass(frozen=True)
class StudySetup:
    """What all parts of a study share: design, counts and settings."""

    design: Design
    layout: Layout
    settings: ResamplingSettings

    @property
    def a(self) -> int:
        """Position of group a."""
        return self.design.index(self.design.a)

    @property
    def b(self) -> int:
        """Position of group b."""
        return self.design.index(self.design.b)

    @property
    def pair(self) -> tuple[int, int]:
        """Positions of groups a and b."""
        return self.a, self.b

    @property
    def everyone(self) -> tuple[int, ...]:
        """Positions of all groups."""
        return tuple(range(len(self.design.groups)))

    @property
    def target_numbers(self) -> range:
        """Positions of the targets."""
        return range(len(self.design.targets))


def pooled_encoders(encoders: Sequence[EncoderEmbeddings]) -> list[int]:
    """Find the encoders that are averaged: those that read text, so that all components average the same.

    If none does, all.
    """
    return [i for i, encoder in enumerate(encoders) if encoder.reads_text] or list(range(len(encoders)))


def unit_rows(x: np.ndarray) -> np.ndarray:
    """Scale rows, if any, to length 1; many of them in pieces, since each piece is copied."""
    at_once = max(2**20 // max(x.shape[1], 1), 1)
    if len(x) <= at_once:
        return unit_vectors(x) if len(x) else np.asarray(x, np.float64)
    units = np.empty(x.shape)
    for first in range(0, len(x), at_once):
        units[first : first + at_once] = unit_vectors(x[first : first + at_once])
    return units
