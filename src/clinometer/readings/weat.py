"""WEAT, SEAT and iEAT on words and pictures that are there already: no run, no drawing.

::

    tests × (words → encoder | pictures → encoder | file of vectors) ──▶ stimuli of four sets ──▶ a row a test
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import nan
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
import pandas as pd

from clinometer._cores import one_thread
from clinometer._messages import first_and_more
from clinometer.errors import InvalidInputError, ModelError, SuiteError
from clinometer.metrics.records import storable
from clinometer.metrics.weat import Spread, stimulus_weat
from clinometer.models.files import image_files
from clinometer.models.images import decode_in_batches
from clinometer.models.protocols import Encoder, LooksUpTexts, ReadsTexts, SeesImages, offers
from clinometer.readings.fit import unfit_stimuli
from clinometer.runs.embeddings import PROBED, require_same, shaped_vectors
from clinometer.runs.progress import naming_errors
from clinometer.runs.record import card_record
from clinometer.stats.multiplicity import benjamini_hochberg, holm
from clinometer.stats.permutation import Alternative
from clinometer.suites import Suite, WeatSuite, load_suite, suite_names
from clinometer.suites.undrawn import Stimuli

Unit = Literal["word", "sentence"]

IMAGE_BATCH = 32


@dataclass(frozen=True, kw_only=True)
class WeatTest:
    """One test on one encoder, with everything needed to defend it; NaN with a ``reason`` where undefined.

    Attributes
    ----------
    test, title : the suite's name (with ``" in sentences"`` where it was so) and its title.
    encoder : its name.
    x, y, a, b : labels of the sets.
    n_x, n_y, n_a, n_b : stimuli that took part.
    statistic, effect_size : see :func:`clinometer.metrics.weat`; positive: X to A, Y to B.
    statistic_low, …, effect_size_high : 95 % intervals; the stimuli of all four sets are resampled.
    spread, ddof : what the effect size divides by.
    p, alternative, exact, n_splits, p_error : the permutation test of the targets' labels; an ``n_splits`` of 2^63 − 1
        stands for that many or more.
    p_method, p_low, p_high : how p was found (``"exact"``, ``"certified"``, ``"sampled"``) and bounds of the exact p,
        see :class:`clinometer.metrics.weat.Weat`.
    q, p_holm, family : Benjamini–Hochberg, and Holm's adjusted p, within the tests of one call on one encoder, which
        ``family`` names.
    unit : what is permuted and resampled: ``"word"``, ``"sentence"`` or ``"image"``.
    missing : words without a vector and pictures that cannot be read, which the test went without.
    reason : why a number is missing.
    misfit : why the encoder cannot judge these words or pictures, by its card; empty where it fits.
    """

    test: str
    title: str
    encoder: str
    x: str
    y: str
    a: str
    b: str
    n_x: int = 0
    n_y: int = 0
    n_a: int = 0
    n_b: int = 0
    statistic: float = nan
    statistic_low: float = nan
    statistic_high: float = nan
    effect_size: float = nan
    effect_size_low: float = nan
    effect_size_high: float = nan
    spread: str = "union"
    ddof: int = 1
    p: float = nan
    q: float = nan
    p_holm: float = nan
    alternative: str = "greater"
    exact: bool = False
    n_splits: int = 0
    p_error: float = nan
    p_method: str = ""
    p_low: float = nan
    p_high: float = nan
    family: str = ""
    unit: str = "word"
    missing: str = ""
    reason: str = ""
    misfit: str = ""


@dataclass(frozen=True)
class WeatSettings:
    """How every test of a call is computed; ``alternative`` None keeps each suite's own."""

    unit: Unit = "word"
    alternative: Alternative | None = None
    ddof: int = 1
    spread: Spread = "union"
    permutations: int = 9_999
    resamples: int = 9_999
    max_missing: float = 0.2
    seed: int = 0


@dataclass(frozen=True)
class _DesignedTest:
    """A test as it was asked for: its words alone, or each in sentences."""

    suite: WeatSuite
    in_sentences: bool

    @property
    def name(self) -> str:
        return f"{self.suite.name} in sentences" if self.in_sentences else self.suite.name

    def texts_of(self, stimuli: Stimuli, word: str) -> tuple[str, ...]:
        return stimuli.sentences_of(word) if self.in_sentences else (word,)

    def texts(self, pictures: Mapping[str, _Set]) -> list[str]:
        """Return all texts of the sets that do not stand for themselves in pictures."""
        sets = [stimuli for stimuli in self.suite.sets.values() if stimuli.folder not in pictures]
        return [text for stimuli in sets for word in stimuli.words for text in self.texts_of(stimuli, word)]


@dataclass(frozen=True)
class _Set:
    """A set's stimuli that are there, and the names of those that are not."""

    stimuli: list[np.ndarray]
    missing: list[str]
    is_images: bool = False


def weat_tests(
    tests: Sequence[str | Path | Suite],
    encoder: Encoder,
    *,
    images: Path | None = None,
    sentences: bool = False,
    settings: WeatSettings = WeatSettings(),
) -> pd.DataFrame:
    """Run tests on one encoder: a row a test, in the order asked for.

    A set whose folder is in ``images`` stands for itself in pictures; any other in its words. A test of which more than
    ``max_missing`` of a set is missing is not run, and says so.

    Raises
    ------
    SuiteError, ModelError
        An unknown test, a missing folder, an encoder that takes no text or no picture.
    """
    _validate(settings)
    if images is not None and not images.is_dir():
        raise ModelError.not_found(
            f"{images}: no such folder; give the one that holds a folder of pictures for each set"
        )
    designed_tests = [designed_test for test in tests for designed_test in _designed_tests(test, sentences)]
    pictures = {} if images is None else _pictures(images, designed_tests, encoder)
    vectors = _vectors(designed_tests, pictures, encoder)
    card = card_record(encoder.card)
    rows = []
    for test in designed_tests:
        shows = any(stimuli.folder in pictures for stimuli in test.suite.sets.values())
        misfit = unfit_stimuli(card, test.texts(pictures), pictures=shows)
        rows.append(replace(_row(test, pictures, vectors, encoder.card.name, settings), misfit=misfit))
    family = f"{len(rows)} {'test' if len(rows) == 1 else 'tests'} on {encoder.card.name}"
    p_values = np.array([row.p for row in rows])
    adjusted = zip(rows, benjamini_hochberg(p_values), holm(p_values), strict=True)
    rows = [replace(row, q=float(q), p_holm=float(p_holm), family=family) for row, q, p_holm in adjusted]
    return pd.DataFrame([asdict(row) for row in rows], columns=[field.name for field in fields(WeatTest)])


def _validate(settings: WeatSettings) -> None:
    """Refuse settings here, where a wrong one would else become the reason of every test."""
    if not 0 <= settings.max_missing < 1:
        raise InvalidInputError.out_of_range(
            f"expected a share from 0 to below 1, found {settings.max_missing}", field="max_missing"
        )
    for name, number, least in (
        ("permutations", settings.permutations, 1), ("resamples", settings.resamples, 1),
        ("ddof", settings.ddof, 0), ("seed", settings.seed, 0),
    ):  # fmt: skip
        if number < least:
            raise InvalidInputError.out_of_range(f"expected {least} or more, found {number}", field=name)
    choices = (("unit", settings.unit, Unit), ("spread", settings.spread, Spread))
    for name, choice, kind in (*choices, ("alternative", settings.alternative or "greater", Alternative)):
        if choice not in get_args(kind):
            raise InvalidInputError.expected_one_of(get_args(kind), choice, field=name)


def _designed_tests(test: str | Path | Suite, sentences: bool) -> Iterator[_DesignedTest]:
    """Yield one test, or all of a folder of them; ``seat/6`` is ``weat/6`` in sentences."""
    name = "" if isinstance(test, Suite) else os.fspath(test)
    if name == "seat" or name.startswith("seat/"):
        yield from _designed_tests(f"weat{name.removeprefix('seat')}", True)
        return
    of_folder = [suite_name for suite_name in suite_names() if name and suite_name.startswith(f"{name}/")]
    of_folder.sort(key=lambda suite_name: (name == "weat" and len(suite_name), suite_name))  # weat/10 after weat/9
    chosen: list[str | Path | Suite] = [*of_folder] or [test]
    for choice in chosen:
        suite = load_suite(choice)
        if not isinstance(suite, WeatSuite):
            raise SuiteError.unsupported(
                f"suite {suite.name}: its study is {suite.study!r}, which asks a model for images; "
                f"give: clinometer audit --suite {suite.name if isinstance(choice, Suite) else choice}"
            )
        yield _DesignedTest(suite, sentences)


def _pictures(images: Path, tests: Sequence[_DesignedTest], encoder: Encoder) -> dict[str, _Set]:
    """Return the embedded pictures of every folder that a set names and that is there."""
    if not offers(encoder, SeesImages):
        raise ModelError.unsupported(
            f"encoder {encoder.card.name}: it embeds texts only; name one of images, such as RN50/openai"
        )
    folders = {stimuli.folder for test in tests for stimuli in test.suite.sets.values() if stimuli.folder}
    there = sorted(folder for folder in folders if (images / folder).is_dir())
    if not there:
        expected = ", ".join(sorted(folders)) or "none: these tests are of words only"
        raise ModelError.not_found(f"{images}: found no folder of pictures for a set; expected one of {expected}")
    return {folder: _folder(images / folder, encoder) for folder in there}


def _folder(folder: Path, encoder: Encoder) -> _Set:
    name, width = encoder.card.name, None
    embedded: list[np.ndarray] = []
    missing: list[str] = []
    files = image_files([folder])
    for batch in decode_in_batches(files, IMAGE_BATCH):
        decoded = [(path, decoded_image.image) for path, decoded_image in batch]
        missing += [path.name for path, image in decoded if image is None]
        readable = [image for _, image in decoded if image is not None]
        if readable:
            with naming_errors("encoder", name, note=""):
                raw_vectors = encoder.encode_images(readable)
            vectors = shaped_vectors(
                raw_vectors, name, [path.name for path, image in decoded if image is not None], width
            )
            width = vectors.shape[1]
            embedded += list(vectors[:, None])
    return _Set(embedded, missing, is_images=True)


def _vectors(tests: Sequence[_DesignedTest], pictures: Mapping[str, _Set], encoder: Encoder) -> dict[str, np.ndarray]:
    """Return the vector of every text that any test needs and the encoder knows, each embedded once."""
    texts = dict.fromkeys(text for test in tests for text in test.texts(pictures))
    if texts and not offers(encoder, ReadsTexts):
        raise ModelError.unsupported(
            f"encoder {encoder.card.name}: it embeds images only, and a test asks for words; name another"
        )
    name = encoder.card.name
    with naming_errors("encoder", name, note=""), one_thread():
        missing = set(encoder.missing(texts)) if offers(encoder, LooksUpTexts) else set()
        known_texts = [text for text in texts if text not in missing]
        if not known_texts:
            return {}
        vectors = shaped_vectors(encoder.encode_texts(known_texts), name, known_texts)
        again = shaped_vectors(encoder.encode_texts(known_texts[:PROBED]), name, known_texts[:PROBED], vectors.shape[1])
    require_same(vectors[:PROBED], again, encoder.card, "text")
    return dict(zip(known_texts, vectors, strict=True))


_ALIKE: Final = (
    "statistic", "statistic_low", "statistic_high", "effect_size", "effect_size_low", "effect_size_high", "exact",
    "p_method", "p_low", "p_high", "reason",
)  # fmt: skip
"""Fields of a result that a row has under the same names."""


def _row(
    test: _DesignedTest,
    pictures: Mapping[str, _Set],
    vectors: Mapping[str, np.ndarray],
    encoder: str,
    settings: WeatSettings,
) -> WeatTest:
    suite = test.suite
    sets = {role: _set(test, stimuli, pictures, vectors, settings.unit) for role, stimuli in suite.sets.items()}
    kinds = {
        "image" if stimulus_set.is_images else settings.unit if test.in_sentences else "word"
        for stimulus_set in sets.values()
    }
    labels: dict[str, Any] = {role: stimuli.label for role, stimuli in suite.sets.items()}
    counted: dict[str, Any] = {f"n_{role}": len(stimulus_set.stimuli) for role, stimulus_set in sets.items()}
    row = WeatTest(
        test=test.name,
        title=suite.title,
        encoder=encoder,
        **labels,
        **counted,
        spread=settings.spread,
        ddof=settings.ddof,
        alternative=settings.alternative or suite.alternative,
        unit=" and ".join(sorted(kinds)),
        missing=", ".join(dict.fromkeys(name for stimulus_set in sets.values() for name in stimulus_set.missing)),
    )
    reasons = [_lack(suite.sets[role], stimulus_set, settings.max_missing) for role, stimulus_set in sets.items()]
    reason = next(filter(None, reasons), "")
    if reason:
        return replace(row, reason=reason)
    try:
        result = stimulus_weat(
            *(stimulus_set.stimuli for stimulus_set in sets.values()),
            alternative=settings.alternative or suite.alternative,
            permutations=settings.permutations,
            resamples=settings.resamples,
            rng=np.random.default_rng([settings.seed, *test.name.encode()]),
            ddof=settings.ddof,
            spread=settings.spread,
        )
    except InvalidInputError as error:
        return replace(row, reason=str(error))
    return replace(
        row, p=result.p_value, p_error=result.standard_error, n_splits=storable(result.n_splits),
        **{name: getattr(result, name) for name in _ALIKE},
    )  # fmt: skip


def _set(
    test: _DesignedTest, stimuli: Stimuli, pictures: Mapping[str, _Set], vectors: Mapping[str, np.ndarray], unit: Unit
) -> _Set:
    if stimuli.folder in pictures:
        return pictures[str(stimuli.folder)]
    items, missing = [], []
    for word in stimuli.words:
        word_vectors = [vectors[text] for text in test.texts_of(stimuli, word) if text in vectors]
        if not word_vectors:
            missing.append(word)
        elif unit == "word":
            items.append(np.stack(word_vectors))
        else:
            items += [vector[None] for vector in word_vectors]
    return _Set(items, missing)


def _lack(stimuli: Stimuli, stimulus_set: _Set, max_missing: float) -> str:
    """Explain why a set cannot take part; return an empty text if it can."""
    if not stimulus_set.stimuli and not stimulus_set.missing:
        return f"{stimuli.label}: no words and no pictures; give pictures with --images, in a folder {stimuli.folder}"
    total = len(stimuli.words) if not stimulus_set.is_images else len(stimulus_set.stimuli) + len(stimulus_set.missing)
    if not stimulus_set.stimuli or len(stimulus_set.missing) > max_missing * total:
        return (
            f"{stimuli.label}: {len(stimulus_set.missing)} of {total} are missing "
            f"({first_and_more(stimulus_set.missing, 3)}); at most {max_missing:.0%} may be"
        )
    return ""
