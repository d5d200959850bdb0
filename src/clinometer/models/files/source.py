"""A folder of finished images as a generator, where to generate is to read; and portraits to be edited or classified.

The file names of the Chicago Face Database and of sets that follow it say who is shown::

    CFD-WF-001-003-N.jpg      race (A, B, L, W, I, M) and gender (F, M), person, picture, expression

with the expressions N (neutral), A (angry), F (fearful), HC (happy, mouth closed) and HO (happy, mouth open). The
database itself may not be passed on, and nothing of it is here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, Final, TypeVar

from clinometer._cores import available_cores
from clinometer.errors import ImportManifestError, InvalidInputError
from clinometer.models.abilities import Converts, Priced, offers
from clinometer.models.files.folder import NAMES, ManifestRow, read_manifest
from clinometer.models.images import (
    BYTES_A_PIXEL,
    DECODING_BYTES,
    MAX_PIXELS,
    PLAIN_BYTES,
    at_hand,
    decode_file,
    decoded_bytes,
    may_be_read,
    sha256,
)
from clinometer.models.protocols import Card, Encoder, GenerationRequest, GenerationResult, Generator
from clinometer.models.weights import file_hash, hash_of_hashes

MOST_THREADS = 16
"""That decode files."""

AT_ONCE = 8
"""Files that a thread decodes in one go, at most."""

AT_ONCE_BYTES = 2**24
"""What they may take in memory; a larger one is decoded alone."""

_COUNTING: Final = Lock()
"""Of the module, so that a source can be sent to another process."""


class FolderSource:
    """Finished images behind the generator's protocol: to generate is to read.

    Parameters
    ----------
    directory : the folder.
    rows : its manifest, as `read_manifest` returns it.
    name : the name in the card; the folder's own by default.
    max_pixels : see `clinometer.models.images.decode_image`.
    """

    def __init__(
        self,
        directory: Path | str,
        rows: Sequence[ManifestRow],
        *,
        name: str | None = None,
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        self.batch_size = 32
        self.conversions: Counter[str] = Counter()  # what was done to images that are not plain RGB, and to how many
        self._directory = Path(directory)
        self._max_pixels = max_pixels
        self._files = {row.file: row.file for row in rows}
        self._flagged = {row.file for row in rows if row.flagged}
        self._decoded: dict[str, int] = {}  # by file, as far as anybody asked
        self.card = Card(
            kind="generator",
            name=name or self._directory.resolve().name,
            family="folder",
            weights_sha256=hash_of_hashes(self._hashes()),
            settings={"max_pixels": max_pixels} | flags_of(rows),
            notes={"images": len(self._files)},
        )

    def _hashes(self) -> Iterator[tuple[Path, str]]:
        """Each file with its hash. One that is too large fails unread, and to hash it may take hours."""
        for file in self._files:
            path = self._directory / file
            content = at_hand(path)
            if not may_be_read(content, self._max_pixels):
                continue
            if isinstance(content, bytes):
                self._decoded[file] = decoded_bytes(content, max_pixels=self._max_pixels)
            yield path.relative_to(self._directory), sha256(content) if isinstance(content, bytes) else file_hash(path)

    def assign(self, files: Mapping[str, str]) -> None:
        """Say which file answers which request, by its id. Until then, a file's own path is its id."""
        self._files = dict(files)

    def decoded_bytes(self, file: str) -> int:
        """What an image takes in memory once it is decoded: by its head, which is read once."""
        size = self._decoded.get(file)
        if size is None:
            size = self._decoded[file] = decoded_bytes(self._directory / file, max_pixels=self._max_pixels)
        return size

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        """Yield each request's image: "failed" where it cannot be read, "blank" where it has one colour."""
        chunks = in_order(
            self._read_all,
            self._chunks(requests),
            weight=self._weight,
            most=DECODING_BYTES,
            workers=min(MOST_THREADS, available_cores()),
        )
        for results in chunks:
            yield from results

    def _chunks(self, requests: Iterable[GenerationRequest]) -> Iterator[list[GenerationRequest]]:
        """A few small images at a time: each thread that is woken costs some of Python's time."""
        chunk: list[GenerationRequest] = []
        for request in requests:
            if chunk and (len(chunk) == AT_ONCE or self._weight([*chunk, request]) > AT_ONCE_BYTES):
                yield chunk
                chunk = []
            chunk.append(request)
        if chunk:
            yield chunk

    def _weight(self, requests: Iterable[GenerationRequest]) -> int:
        """What files may take in memory while they are decoded."""
        files = (self._files.get(request.id) for request in requests)
        return sum(self.decoded_bytes(file) // BYTES_A_PIXEL * PLAIN_BYTES for file in files if file is not None)

    def _read_all(self, requests: Sequence[GenerationRequest]) -> list[GenerationResult]:
        return [self._read(request) for request in requests]

    def _read(self, request: GenerationRequest) -> GenerationResult:
        started = perf_counter()
        file = self._files.get(request.id)
        if file is None:
            return GenerationResult(request.id, "failed", None, "the manifest lists no image for it")
        decoding, content = decode_file(self._directory / file, max_pixels=self._max_pixels)
        with _COUNTING:
            self.conversions.update(decoding.conversions)
        seconds, flagged = perf_counter() - started, file in self._flagged
        return GenerationResult(request.id, decoding.status, decoding.image, decoding.reason, seconds, content, flagged)


def flags_of(rows: Iterable[ManifestRow]) -> dict[str, str]:
    """What a card's settings say of flagged pictures: a hash of which they are; nothing where none is."""
    flagged = sorted(row.file for row in rows if row.flagged)
    content = json.dumps(flagged).encode("utf-8", "surrogatepass")
    return {"flagged": hashlib.sha256(content).hexdigest()[:16]} if flagged else {}


Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    weight: Callable[[Item], int],
    most: int,
    workers: int,
) -> Iterator[Result]:
    """Yield the work's result for each item, in the items' order, made ahead by some threads.

    Parameters
    ----------
    weight : of an item, from before its work begins until its result is taken.
    most : what the items at work or waiting weigh together; an item that weighs more is alone.
    workers : threads; twice as many items are taken ahead at most.
    """
    pending: deque[tuple[Future[Result], int]] = deque()
    total = 0
    with ThreadPoolExecutor(workers) as pool:
        for item in items:
            item_weight = weight(item)
            while pending and (total + item_weight > most or len(pending) >= 2 * workers):
                future, first_weight = pending.popleft()
                yield future.result()
                total -= first_weight
            pending.append((pool.submit(work, item), item_weight))
            total += item_weight
        while pending:
            yield pending.popleft()[0].result()


class EmbeddedSource:
    """Finished images and their encoders as one generator, so that a worker has both at hand."""

    def __init__(self, source: Converts, encoders: Sequence[Encoder]) -> None:
        self.card, self.batch_size, self.conversions = source.card, source.batch_size, source.conversions
        self.encoders, self.proven = tuple(encoders), set[str]()
        self._source = source

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        """Read images."""
        return self._source.generate(requests)


EXPRESSIONS: Final = ("N", "A", "F", "HC", "HO")
FACE_NAME: Final = re.compile(
    rf"CFD-(?P<code>[ABLWIM][FM])-(?P<person>\d+)-(?P<picture>\d+)-(?P<expression>{'|'.join(EXPRESSIONS)})\.(jpe?g|png)",
    re.IGNORECASE,
)


def read_portraits(
    directory: str | Path,
    codes: Mapping[str, Sequence[str]],
    *,
    expression: str = "N",
    prompts: Mapping[str, str] | None = None,
) -> list[ManifestRow]:
    """List the portraits of a folder, each with its group.

    Parameters
    ----------
    directory : a folder with a manifest (see :mod:`clinometer.models.files.folder`), or with files named as above, in
        folders of any depth.
    codes : for each group, the codes that mean it.
    expression : which expression is taken, for files named as above.
    prompts : the group of each prompt, for a manifest that gives the prompt alone.

    Raises
    ------
    InvalidInputError
        An unknown expression.
    ImportManifestError
        No such folder; neither a manifest nor such names; a file that begins like them and ends otherwise; or a
        group that has no portrait.
    """
    folder = Path(directory)
    if expression.upper() not in EXPRESSIONS:
        raise InvalidInputError(f"found {expression!r}, expected one of {', '.join(EXPRESSIONS)}", field="expression")
    if not folder.is_dir():
        raise ImportManifestError(f"{directory}: no such folder; give the folder that holds the portraits")
    if any((folder / name).is_file() for name in NAMES):
        rows = [_with_group(row, prompts or {}) for row in read_manifest(folder)]
        _require_groups(directory, rows, codes)
        return rows
    rows = list(_named_portraits(folder, codes, expression))
    _require_groups(directory, rows, codes)
    return rows


def _with_group(row: ManifestRow, prompts: Mapping[str, str]) -> ManifestRow:
    """A row that its prompt alone describes, with the group that the prompt is asked for."""
    group = prompts.get(str(row.prompt)) if row.concept is None and row.group is None else None
    return row if group is None else replace(row, group=group, role="attribute")


def _named_portraits(folder: Path, codes: Mapping[str, Sequence[str]], expression: str) -> Iterator[ManifestRow]:
    group_of = {code.upper(): group for group, group_codes in codes.items() for code in group_codes}
    count = 0
    for number, path in enumerate(sorted(path for path in folder.rglob("CFD-*") if path.is_file()), start=1):
        match = FACE_NAME.fullmatch(path.name)
        if match is None:
            raise ImportManifestError(
                f"{path.relative_to(folder)}: its name is not of the form CFD-WF-001-003-N.jpg (race and gender, "
                "person, picture, expression); rename or remove it"
            )
        count += 1
        group = group_of.get(match["code"].upper())
        if group is not None and match["expression"].upper() == expression.upper():
            file = path.relative_to(folder).as_posix()
            yield ManifestRow(file, None, group, "attribute", None, number)
    if not count:
        raise ImportManifestError(
            f"{folder}: neither a manifest ({', '.join(NAMES)}) nor files named like CFD-WF-001-003-N.jpg"
        )


def _require_groups(directory: str | Path, rows: Sequence[ManifestRow], codes: Mapping[str, Sequence[str]]) -> None:
    groups = {row.group for row in rows}
    for group, group_codes in codes.items():
        if group not in groups:
            means = f", codes {', '.join(group_codes)}" if group_codes else ""
            raise ImportManifestError(f"{directory}: no portrait of group {group!r}{means}; the suite asks for some")


def choose_portraits(rows: Sequence[ManifestRow], n: int | None, seed: int) -> list[ManifestRow]:
    """Choose at most n portraits of each group, by a hash of seed and file: the same whatever else is there.

    None takes all.
    """
    if n is None:
        return list(rows)
    chosen: dict[str | None, list[ManifestRow]] = {}
    for row in sorted(rows, key=lambda row: hashlib.sha256(f"{seed}:{row.file}".encode()).digest()):
        if len(chosen.setdefault(row.group, [])) < n:
            chosen[row.group].append(row)
    files = {row.file for portraits in chosen.values() for row in portraits}
    return [row for row in rows if row.file in files]


class PortraitSource:
    """Portraits from a folder, and what a model does with them, as one generator.

    It has ``editor`` or ``denoiser`` where the model has.
    """

    def __init__(self, folder: FolderSource, model: Generator) -> None:
        self._folder, self._model = folder, model
        self.batch_size = model.batch_size
        self.conversions = folder.conversions
        self.price_per_image = float(model.price_per_image) if offers(model, Priced) else 0.0
        portraits = {"name": folder.card.name, "sha256": folder.card.weights_sha256}
        self.card = replace(model.card, settings=model.card.settings | {"portraits": portraits})

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        """Read the portraits."""
        return self._folder.generate(requests)

    def __getattr__(self, name: str) -> Any:
        if name in {"editor", "denoiser", "weight_bytes"}:
            return getattr(self._model, name)
        raise AttributeError(name)
