"""What a page is made from: a plain, read-only view of a finished run, with its pictures and its rows.

The report reads this and nothing else. It sorts, filters, counts rows and formats; every estimate, interval,
curve and verdict in it was computed when the run was scored.
"""

from __future__ import annotations

import base64
import io
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import islice
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, cast, overload

import numpy as np
import pandas as pd
from PIL import Image, UnidentifiedImageError

from clinometer.metrics import records
from clinometer.models.images import KEPT
from clinometer.suites.base import AnySuite

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.suites import Suite

MEAN = "mean"
OWN_TEXT_METRIC = records.OWN_TEXT
PRIOR_METRIC = records.PRIOR
METRICS_OF_THE_MODEL = records.OF_THE_MODEL
READING_METRIC = records.READING
STANDARD_METRIC = records.STANDARD
STEERABILITY_METRIC = records.STEERABILITY
ABLATION_METRIC = records.ABLATION
DECIDING_FLAG = records.DECIDES
BY_COSINES: Final = "clip with "
"""Before an encoder's name: the reader whose answers are a run's shares, see ``stats.association.nearest_group``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row(records.Score):
    """A score as the page reads it."""

    metric: str = ""
    component: str = ""

    @property
    def defined(self) -> bool:
        """Return whether there is a number."""
        return isfinite(self.value)

    @property
    def has_interval(self) -> bool:
        """Return whether the image interval is there."""
        return isfinite(self.low) and isfinite(self.high)

    @property
    def has_stimulus_interval(self) -> bool:
        """Return whether the stimulus interval is there."""
        return isfinite(self.stimulus_low) and isfinite(self.stimulus_high)

    def ends(self, over: str = "images") -> tuple[float, float]:
        """Look up the interval over images, or over what was asked: ``"stimuli"``."""
        return (self.stimulus_low, self.stimulus_high) if over == "stimuli" else (self.low, self.high)

    @property
    def has_bounds(self) -> bool:
        """Return whether it is known what missing or repeated pictures might change."""
        return isfinite(self.bound_low) and isfinite(self.bound_high)

    @property
    def unstable(self) -> bool:
        """Return whether the value is flagged unstable."""
        return self.flag == "unstable"


class Scores:
    """The rows of a run, in their stored order; each is made when it is asked for, as a table may have 350,000."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._made: list[Row | None] = list(rows)
        self._columns: dict[str, np.ndarray] = {}

    @classmethod
    def from_frame(cls, frame: pd.DataFrame) -> Scores:
        """Read a data frame; a missing column or cell takes the field's default."""
        scores = cls(())
        scores._made = [None] * len(frame)
        scores._columns = {name: _cells(frame[name], default) for name, default in _DEFAULTS.items() if name in frame}
        return scores

    @property
    def rows(self) -> tuple[Row, ...]:
        """Every row."""
        return tuple(self)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._at(range(len(self))))

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, positions: slice) -> list[Row]:
        return self._at(range(len(self))[positions])

    def select(self, metric: str, component: str | None = None, **equal: str) -> list[Row]:
        """Select the rows of a metric, in order; ``encoder`` is the mean over encoders unless named, ``"*"`` is any."""
        return self.head(len(self), metric, component, **equal)

    def head(self, most: int, metric: str, component: str | None, /, **equal: str) -> list[Row]:
        """Select the first of these rows, so many at most."""
        component = "*" if component is None else component
        found = np.arange(len(self))
        for name, value in ({"metric": metric, "component": component, "encoder": MEAN} | equal).items():
            if value != "*":
                found = found[self._cells_of(name)[found] == value]
        return self._at(found[:most].tolist())

    def having(self, field: str) -> list[Row]:
        """Select the rows in which a field is not what it is by default."""
        return self._at(np.flatnonzero(self._cells_of(field) != _DEFAULTS[field]).tolist())

    def distinct(self, *fields: str) -> list[tuple[str, ...]]:
        """List what several fields are together, each once, in the order of the rows."""
        return list(dict.fromkeys(zip(*map(self._cells_of, fields), strict=True)))

    def by_concept(self, metric: str, component: str, **equal: str) -> dict[str, Row]:
        """Look up the row of each concept."""
        return {row.concept: row for row in self.select(metric, component, **equal) if row.concept}

    def first(self, metric: str, component: str, **equal: str) -> Row | None:
        """Look up the first such row, if there is one."""
        return next(iter(self.select(metric, component, **equal)), None)

    def _cells_of(self, field: str) -> np.ndarray:
        if field not in self._columns:
            cells = [_DEFAULTS[field] if row is None else getattr(row, field) for row in self._made]
            self._columns[field] = np.array(cells, object)
        return self._columns[field]

    def _at(self, places: Sequence[int]) -> list[Row]:
        new = [place for place in places if self._made[place] is None]
        columns = {name: cells[new].tolist() for name, cells in self._columns.items()}
        for at, place in enumerate(new):
            self._made[place] = Row(**{name: cells[at] for name, cells in columns.items()})
        return cast("list[Row]", [self._made[place] for place in places])


_DEFAULTS: Final[dict[str, Any]] = {each.name: each.default for each in fields(Row)}


def _cells(column: pd.Series, default: Any) -> np.ndarray:
    """Read cells in the field's type; an empty one (None, NaN, NA) is the default."""
    if isinstance(default, str):  # the same few texts again and again: each is kept once
        codes, texts = column.factorize()
        return np.array([*map(str, texts), default], object).take(codes, mode="wrap")
    kind, empty = type(default), column.isna().to_numpy()
    if column.dtype == np.dtype(kind):
        return np.asarray(column)
    cells = column.tolist()
    return np.array([default if gone else kind(cell) for cell, gone in zip(cells, empty, strict=True)], kind)


def is_empty(value: Any) -> bool:
    """Return whether a cell of a data frame holds nothing: None, NaN or NA."""
    return value is None or (isinstance(value, float) and isnan(value)) or str(value) == "<NA>"


ROWS_AT_ONCE: Final = 50_000


def scores_table(scores: Iterable[records.Score]) -> pd.DataFrame:
    """Return scores as the table that a run keeps; of an iterator only so many are there at a time."""
    import pandas as pd

    rows, tables = iter(scores), list[pd.DataFrame]()
    while (some := list(islice(rows, ROWS_AT_ONCE))) or not tables:
        tables.append(
            pd.DataFrame({each.name: [getattr(row, each.name) for row in some] for each in fields(records.Score)})
        )
    return tables[0] if len(tables) == 1 else pd.concat(tables, ignore_index=True)


@dataclass(frozen=True)
class ReportInput:
    """Everything one page shows.

    Attributes
    ----------
    title : name of the audit.
    suite : what was asked.
    model_card : the generator's card as a mapping: name, family, revision, weights_sha256, settings, notes.
    encoder_cards : the same for each encoder, by the name used in ``scores.encoder``.
    settings : how the run was made: ``seed``, ``images``, ``created``, ``versions``, …; shown as it is.
    scores : one row a ``Score`` (see ``clinometer.metrics.records``), with one more column ``verdict``.
    samples : a row an image: id, prompt, concept, role ("target" or "attribute"), group, category, seed, source,
        strength, status, reason, seconds, flagged. Texts that many rows share may be categories.
    image : PNG bytes of a sample by id; ``None`` when there are none.
    voices : who was asked about the images: a reader and a question each, in words.
    said : what each of these answered of a sample by id; nothing of one that was not asked about.
    planted : the probability of each group under the neutral prompt of each concept, where it is known,
        because it was planted: ``planted["firefighter"]["man"]``.
    readings : of the reference model, how its encoder and an independent judge read the same images, by concept:
        ``n``, ``encoder`` and ``judge`` (men counted), ``differ``.
    curves : whatever else the run's scorer stored for figures; the column ``curve`` says what a row is.
    csv_name : the file of scores that lies beside the page; empty when none does.
    stopped_early : whether images were drawn in rounds, until decided.
    departures : where the run departs from its suite's protocol, a mapping of option, paper, run and reason each; None
        of a run that was not put under it.
    registration : when the run was registered and what was changed since, in words; empty of a run that was not.
    unchecked : what is said first of a run without checksums; empty of every other.
    notices : what the whole run lacks, such as concepts without a picture, a sentence each.
    concept_notices : what to know of the pictures of a concept, such as that some repeat others, by its name; of the
        groups' pictures by an empty one.
    notices_in_short : the same of all concepts together, for a page that has no place for each.
    strips : reads the pictures of what images were taken for on the way, by sample id and step; none where none are.
    damage : what of the run is missing or damaged, a line each; those of images are added as they are read.
    """

    title: str
    suite: Suite
    model_card: Mapping[str, Any]
    encoder_cards: Mapping[str, Mapping[str, Any]]
    settings: Mapping[str, Any]
    scores: pd.DataFrame
    samples: pd.DataFrame
    image: Callable[[str], bytes | None]
    voices: Sequence[str] = ()
    said: Callable[[str], Sequence[str]] = lambda identifier: ()
    planted: Mapping[str, Mapping[str, float]] | None = None
    readings: Mapping[str, Mapping[str, float]] | None = None
    curves: pd.DataFrame | None = None
    csv_name: str = "scores.csv"
    stopped_early: bool = False
    departures: Sequence[Mapping[str, str]] | None = None
    registration: str = ""
    unchecked: str = ""
    notices: Sequence[str] = ()
    concept_notices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notices_in_short: Sequence[str] = ()
    strips: Callable[[], Mapping[str, Mapping[int, bytes]]] = dict
    damage: list[str] = field(default_factory=list)


MOST_IMAGES: Final = 1200
"""Images in one page, so that it stays a few megabytes; a larger run shows the first of every prompt."""

MOST_PER_PROMPT: Final = 24
FEWEST_PER_PROMPT: Final = 2
AT_A_VERDICT: Final = 6
"""Pictures of a concept at its verdict."""


@dataclass
class Tile:
    """One image of the gallery, or what became of it."""

    alt: str
    status: str
    reason: str = ""
    picture: Thumbnail | None = None
    symbol: str = ""
    said: Sequence[tuple[str, str]] = ()
    """Who was asked about it, and the answer."""


def is_flagged(sample: Sample) -> bool:
    """Return whether a safety checker flagged a picture: a report, which goes from hand to hand, leaves it out."""
    flag = sample.get("flagged")
    return not is_empty(flag) and bool(flag)


class Album:
    """The pictures of a page. One that is seen in several places is held once, and shown there by its symbol.

    These are the first pictures of each concept, which stand at its verdict too, and those of the groups.
    """

    def __init__(self, report: ReportInput) -> None:
        self._report = report
        self._shared: dict[str, tuple[str, Thumbnail]] = {}

    @cached_property
    def owned(self) -> dict[tuple[str, ...], Samples]:
        """The samples of each (role, concept or group)."""
        return by_owner(Samples(self._report.samples))

    @cached_property
    def by_prompt(self) -> dict[tuple[str, ...], Samples]:
        """The samples of each (role, concept or group, prompt)."""
        return by_owner(Samples(self._report.samples), "prompt")

    @property
    def limit(self) -> int:
        """How many pictures of a prompt a page holds."""
        return max(FEWEST_PER_PROMPT, min(MOST_PER_PROMPT, MOST_IMAGES // max(1, len(self.by_prompt))))

    @property
    def symbols(self) -> Sequence[tuple[str, Thumbnail]]:
        """The symbols, and the picture that each stands for."""
        return list(self._shared.values())

    def first(self, role: str, owner: str, most: int) -> list[Tile]:
        """Show the first pictures of a concept or group; what is flagged, or is not there, is left out."""
        there = (
            sample
            for sample in self.owned.get((role, owner), ())
            if text_of(sample.get("status")) == "ok" and not is_flagged(sample)
        )
        tiles = []
        for order, sample in enumerate(islice(there, most), 1):
            prompt = text_of(sample.get("prompt")) or owner
            tiles.append(self.tile(sample, f"{prompt}, picture {order}", is_shared=True))
        return [tile for tile in tiles if tile.picture]

    def at_verdict(self, concept: str) -> list[Tile]:
        """Show the pictures that stand at the verdict of a concept; none where what is judged is no concept."""
        return self.first("target", concept, min(AT_A_VERDICT, self.limit))

    def tile(self, sample: Sample, alt: str, *, is_shared: bool = False) -> Tile:
        """Show one sample's picture, or what became of it; ``is_shared`` where other places show it too."""
        status, reason = text_of(sample.get("status")), text_of(sample.get("reason"))
        if status != "ok":
            return Tile(alt, status or "unknown", reason)
        if is_flagged(sample):
            return Tile(alt, "flagged", "a safety checker flagged it; clinometer serve shows it to who asks")
        identifier, report = text_of(sample.get("id")), self._report
        symbol, picture = self._shared.get(identifier) or ("", thumbnail(report.image(identifier)))
        if picture is None:
            return Tile(alt, "unreadable", "the image file cannot be read")
        if is_shared and not symbol:
            symbol = f"image{len(self._shared)}"
            self._shared[identifier] = (symbol, picture)
        said = list(zip(report.voices, report.said(identifier), strict=False))
        return Tile(alt, "ok", picture=picture, symbol=symbol, said=said)


Sample = Mapping[str, Any]


class _SampleRow(Mapping[str, Any]):
    """A row of a table."""

    def __init__(self, table: pd.DataFrame, at: int) -> None:
        self._table, self._at = table, at

    def __getitem__(self, name: str) -> Any:
        cell = self._table[name].array[self._at]
        return cell.item() if isinstance(cell, np.generic) else cell

    def __iter__(self) -> Iterator[str]:
        return iter(map(str, self._table.columns))

    def __len__(self) -> int:
        return len(self._table.columns)


class Samples(Sequence[Sample]):
    """Rows of a table of samples, in its order; of a million rows, each as an object would take a gigabyte."""

    def __init__(self, table: pd.DataFrame, rows: np.ndarray | None = None) -> None:
        self._table = table
        self._rows = np.arange(len(table)) if rows is None else rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Sample: ...
    @overload
    def __getitem__(self, at: slice) -> Samples: ...
    def __getitem__(self, at: int | slice) -> Sample | Samples:
        if isinstance(at, slice):
            return Samples(self._table, self._rows[at])
        return _SampleRow(self._table, int(self._rows[at]))

    def counts(self, name: str) -> Counter[str]:
        """Count each text of a column, in the order in which they first appear."""
        codes, texts = self._texts(name)
        return Counter(dict(zip(texts, np.bincount(codes, minlength=len(texts)).tolist(), strict=True)))

    def by(self, *names: str) -> dict[tuple[str, ...], Samples]:
        """Split rows by the combination of texts in some columns, in the order in which they first appear."""
        codes, texts = zip(*(self._texts(name) for name in names), strict=True)
        shape = [max(1, len(each)) for each in texts]
        ranks, found = pd.factorize(np.atleast_1d(np.ravel_multi_index(codes, shape)))
        order, ends = np.argsort(ranks, kind="stable"), np.cumsum(np.bincount(ranks, minlength=len(found)))
        keys = zip(*np.unravel_index(found, shape), strict=True)
        return {
            tuple(each[code] for each, code in zip(texts, key, strict=True)): Samples(self._table, self._rows[rows])
            for key, rows in zip(keys, np.split(order, ends[:-1]), strict=False)
        }

    def _texts(self, name: str) -> tuple[np.ndarray, list[str]]:
        """Code a column by its texts, in the order in which they first appear; a missing one is empty."""
        if name not in self._table:
            return np.zeros(len(self), int), [""] if len(self) else []
        codes, cells = pd.factorize(self._table[name].array.take(self._rows), use_na_sentinel=False)
        place: dict[str, int] = {}
        of_cell = [place.setdefault(text_of(cell), len(place)) for cell in cells]
        return np.array(of_cell, int)[codes], [*place]

    @classmethod
    def together(cls, found: Sequence[Samples]) -> Samples:
        """Join rows of one table, in its order."""
        if len(found) == 1:
            return found[0]
        return cls(found[0]._table, np.sort(np.concatenate([each._rows for each in found])))


def by_owner(samples: Samples, *further: str) -> dict[tuple[str, ...], Samples]:
    """Split rows by role and owner, a group or, of a target and where there is none, a concept; and by more texts."""
    parts: dict[tuple[str, ...], list[Samples]] = {}
    for (role, concept, group, *rest), found in samples.by("role", "concept", "group", *further).items():
        parts.setdefault((role, concept if role == "target" or not group else group, *rest), []).append(found)
    return {key: Samples.together(found) for key, found in parts.items()}


def text_of(value: Any) -> str:
    """Read a cell as text; empty where there is nothing."""
    return "" if is_empty(value) else str(value)


LARGEST_SIDE: Final = 96
LARGEST: Final = 128_000_000
"""Pixels of an image that is shrunk, three times those of one that is imported; with transparency, as many."""
QUALITY: Final = 72


@dataclass(frozen=True)
class Thumbnail:
    """A WebP image as a data URL."""

    url: str
    width: int
    height: int


def thumbnail(data: bytes | None) -> Thumbnail | None:
    """Shrink a stored image to at most 96 pixels a side; None where there is none, or it is unreadable or too large."""
    if not data:
        return None
    try:
        with Image.open(io.BytesIO(data), formats=tuple(KEPT)) as image:
            if image.width * image.height > (LARGEST if image.mode == "RGB" else LARGEST // 3):
                return None
            small = image if image.mode == "RGB" else _on_white(image)  # a copy of a large image is a large one
            small.thumbnail((LARGEST_SIDE, LARGEST_SIDE), Image.Resampling.LANCZOS)
            buffer = io.BytesIO()
            small.save(buffer, "WEBP", quality=QUALITY, method=4)
    except (OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError):
        return None
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return Thumbnail(f"data:image/webp;base64,{encoded}", *small.size)


def _on_white(image: Image.Image) -> Image.Image:
    """Flatten transparency over white, as a page would show it."""
    if not image.has_transparency_data:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    flat = Image.new("RGB", layer.size, "white")
    flat.paste(layer, mask=layer.getchannel("A"))
    return flat


@dataclass(frozen=True)
class View:
    """A ``ReportInput`` with its rows read: what every study's page has."""

    unit: ClassVar[str] = "images"
    """What intervals are over."""

    report: ReportInput
    scores: Scores

    @classmethod
    def of(cls, report: ReportInput) -> Self:
        """Read the rows."""
        return cls(report, Scores.from_frame(report.scores))

    @classmethod
    def of_scores(cls, suite: Suite, scores: pd.DataFrame) -> Self:
        """View scores alone: there is no card and no image."""
        nothing: dict[str, Any] = {}
        return cls.of(
            ReportInput(
                title="", suite=suite, model_card=nothing, encoder_cards=nothing, settings=nothing, scores=scores,
                samples=scores[:0], image=lambda _: None,
            )
        )  # fmt: skip

    def label(self, group: str) -> str:
        """Look up a group's label for people; a name the suite does not know is shown as it is."""
        return self.report.suite.label_of(group)

    @staticmethod
    def encoder_label(name: str) -> str:
        """Return the name of an encoder for people, or that it is the average over them."""
        return "average over encoders" if name == MEAN else name

    @property
    def model(self) -> str:
        """Look up what the model is called."""
        return str(self.report.model_card.get("name", "the model"))

    @cached_property
    def album(self) -> Album:
        """The pictures of the page, each of which it holds once."""
        return Album(self.report)

    @cached_property
    def encoders(self) -> list[str]:
        """Names of the single encoders, in stored order; rows that no encoder made, as those of refusals, name none."""
        others = (*METRICS_OF_THE_MODEL, READING_METRIC)
        found = (encoder for metric, encoder in self.scores.distinct("metric", "encoder") if metric not in others)
        return [encoder for encoder in dict.fromkeys(found) if encoder not in (MEAN, "")]


class StudyView(View, Generic[AnySuite]):
    """What the page of a study has, whose suites have a shape of their own."""

    @property
    def suite(self) -> AnySuite:
        """The suite in the shape that the study has."""
        return cast("AnySuite", self.report.suite)


class PairView(StudyView[AnySuite], ABC):
    """A run of a study that compares two groups, or two attributes."""

    @abstractmethod
    def labels_of(self, side: str) -> list[str]:
        """Return the labels of the two sides of a difference, that of ``side`` first."""
