"""The stages of a run: generate, encode, score. Each does what is missing and leaves the rest alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, get_args

import numpy as np

from clinometer._cores import available_cores
from clinometer.errors import ClinometerError, ModelError, RunNotFoundError
from clinometer.models.images import encode_png, sha256
from clinometer.models.protocols import Encoder, GenerationRequest, GenerationResult, Generator, Status
from clinometer.models.weights import describe, in_one_line
from clinometer.runs.budget import price_of
from clinometer.runs.plan import Sample
from clinometer.runs.progress import Progress
from clinometer.runs.store import Run

WORKERS = max(1, min(16, available_cores() - 1))
"""Threads that compress images, or decode them, while the model is at work, for which a core is left."""

AT_ONCE = 8
"""Images that a thread decodes in one go, at most."""

HOPELESS: Final = (32, 3)
"""A model is stopped that fails so many images in a row, of so many prompts: one prompt may be at fault itself."""

LONGEST_REASON: Final = 4000
"""Characters; the prompt that a server drew instead may be long."""

NO_VECTORS: Final = np.zeros((0, 1), np.float32)
"""Parquet has no vectors of no length."""


def generate(run: Run, generator: Generator, progress: Progress) -> None:
    """Draw the parts that are missing, of all samples that are drawn from a prompt alone."""
    failures = Failures(run)
    remind(generator, run, edits=False)

    def draw(samples: Sequence[Sample]) -> Iterator[GenerationResult]:
        held = generator.batch_size
        yield from failures.watch(samples, generator.generate(requests_of(samples)))
        if generator.batch_size < held:
            run.record_batch_size(generator.batch_size)
            progress.note(f"memory ran out: batches of {generator.batch_size} from here on; nothing is lost")

    with failures.forgotten():
        title = "drawing" if run.record["origin"] == "generated" else "reading"
        draw_parts(run, None, draw, progress, title, paid=price_of(generator) > 0)
        failures.require_one([sample for sample in run.plan if not sample.source])
    converted = getattr(generator, "conversions", {})  # of a source of files
    if converted:
        told = "; ".join(f"{what} ({images})" for what, images in sorted(converted.items()))
        progress.note(f"converted as they were read, and how many images: {told}")


def remind(model: Any, run: Run, *, edits: bool) -> None:
    """Tell a model that asks for it that the run holds images of its own: its settings are such as draw some."""
    if not getattr(model, "has_drawn", True):
        model.has_drawn = run.has_image(edited=edits)


class Failures:
    """Stops a model that fails image after image, such as on a device that is lost or with weights that overflow.

    One image that fails is a gap in the scores. A model that fails them all would leave nothing else. Images that are
    read from files fail each by itself, but not all.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._in_a_row: list[Sample] = []
        self._first_reason: str | None = None
        self._any_lived = False

    def watch(self, samples: Sequence[Sample], results: Iterable[GenerationResult]) -> Iterator[GenerationResult]:
        """Pass results on.

        Raises
        ------
        ModelError
            As many in a row have failed as `HOPELESS` says.
        """
        by_id = {sample.id: sample for sample in samples}
        images, prompts = HOPELESS
        for result in results:
            if result.status != "failed":
                self._in_a_row.clear()
                self._any_lived = True
                yield result
                continue
            if self._first_reason is None:
                self._first_reason = in_one_line(result.reason or "it gave no reason", LONGEST_REASON)
            if result.id in by_id and not by_id[result.id].file:
                self._in_a_row.append(by_id[result.id])
                asked = {sample.prompt for sample in self._in_a_row}
                if len(self._in_a_row) >= images and len(asked) >= prompts:
                    raise ModelError(
                        f"{self._run.model_card['name']}: {len(self._in_a_row)} images in a row failed, of "
                        f"{len(asked)} prompts: {result.reason}; mend it and give the same command again"
                    )
            yield result

    def require_one(self, samples: Sequence[Sample]) -> None:
        """Refuse a stage of failures alone: of fewer images or prompts than `HOPELESS` says, or of files.

        Raises
        ------
        ModelError
            All images failed.
        """
        if self._first_reason is None or self._any_lived:
            return
        held = self._run.samples
        if (held.status[held.id.isin([sample.id for sample in samples])] != "failed").any():
            return
        self._run.forget_failed_parts({sample.part for sample in samples})
        raise ModelError(
            f"{self._run.model_card['name']}: all {len(samples)} images failed, the first because: "
            f"{self._first_reason}; mend it and give the same command again"
        )

    @contextmanager
    def forgotten(self) -> Iterator[None]:
        """Where the model is stopped in here, keep no part that holds nothing but failures: it is drawn anew."""
        try:
            yield
        except ModelError:
            self._run.forget_failed_parts({sample.part for sample in self._in_a_row})
            raise


def draw_parts(
    run: Run,
    role: str | None,
    draw: Callable[[Sequence[Sample]], Iterable[GenerationResult]],
    progress: Progress,
    title: str,
    *,
    paid: bool,
) -> None:
    """Make the missing parts that hold samples of a role; without one, those of samples made from no other.

    Batches never cross a part, so a run that was stopped draws the remaining parts exactly as it would have. What was
    drawn of the part in hand is kept where it was paid for; else it is drawn anew, in the batches it would have had.
    Images are compressed as they come and a part is written beside the drawing of the next. No more than two parts are
    held: a disk that is slower than the model slows it down.
    """
    parts = {
        part: samples
        for part, samples in run.parts.items()
        if (samples[0].role == role if role is not None else not samples[0].source)
    }
    undrawn = {part: run.undrawn(part) for part in parts}
    total = sum(map(len, parts.values()))
    progress.start(title, total, total - sum(map(len, undrawn.values())))
    with ThreadPoolExecutor(WORKERS) as compressors, _one_behind() as write:
        for part, samples in undrawn.items():
            if not samples:
                continue
            results: list[Future[_Stored]] = []
            try:
                for result in _results(draw, samples, run.model_card["name"]):
                    results.append(compressors.submit(_compressed, result))
                    progress.advance(1)
                write(_write_part, run, part, samples, results, paid)  # meets what befell the part before
            except BaseException:  # the user stops it, too
                if paid:
                    _keep_drawn(run, part, samples, results)
                raise
    progress.finish()


def _results(
    draw: Callable[[Sequence[Sample]], Iterable[GenerationResult]], samples: Sequence[Sample], name: str
) -> Iterator[GenerationResult]:
    """What a generator gives, checked before it is stored: a plug-in may give anything."""
    with named("generator", name):
        for result in draw(samples):
            if result.status not in get_args(Status) or (result.status == "ok" and result.image is None):
                shown = "without an image" if result.image is None else "with an image"
                raise ModelError(
                    f"generator {name}, {result.id}: found status {result.status!r} {shown}, expected 'ok' with one, "
                    "or 'refused', 'failed' or 'blank'"
                )
            yield result


@contextmanager
def _one_behind() -> Iterator[Callable[..., None]]:
    """A thread that does one thing at a time while its caller goes on.

    The caller waits for the thing before, and meets its error: a full disk ends the run with every earlier part whole.
    """
    pending: list[Future[Any]] = []
    with ThreadPoolExecutor(max_workers=1) as thread:

        def submit(task: Callable[..., object], *arguments: Any) -> None:
            while pending:
                pending.pop().result()
            pending.append(thread.submit(task, *arguments))

        yield submit
        while pending:
            pending.pop().result()


def requests_of(samples: Sequence[Sample]) -> Iterator[GenerationRequest]:
    """What a generator is asked for samples that are drawn from a prompt alone."""
    return (GenerationRequest(id=s.id, prompt=s.prompt, seed=s.seed) for s in samples)


@dataclass(frozen=True)
class _Stored:
    """A result with its image as it is stored."""

    result: GenerationResult
    content: bytes | None


def _compressed(result: GenerationResult) -> _Stored:
    content = encode_png(result.image) if result.image is not None else None
    return _Stored(replace(result, image=None), content)


def _write_part(run: Run, part: int, samples: Sequence[Sample], results: Sequence[Future[_Stored]], paid: bool) -> None:
    with named("generator", run.model_card["name"]):
        by_id = {stored.result.id: stored for stored in (each.result() for each in results)}
    lost = [sample.id for sample in samples if sample.id not in by_id]
    if lost:
        if paid:
            _keep_drawn(run, part, samples, results)
        raise ModelError(f"the generator gave no result for {len(lost)} of {len(samples)} requests, first {lost[0]}")
    run.write_samples(part, [_row(sample, by_id[sample.id]) for sample in samples])


def _keep_drawn(run: Run, part: int, samples: Sequence[Sample], results: Sequence[Future[_Stored]]) -> None:
    """Keep what is drawn of a part that ends in its midst; what failed is drawn with the rest, when it is gone on."""
    drawn = (each.result() for each in results if each.exception() is None)
    by_id = {stored.result.id: stored for stored in drawn if stored.result.status != "failed"}
    run.keep_samples(part, [_row(sample, by_id[sample.id]) for sample in samples if sample.id in by_id])


def _row(sample: Sample, stored: _Stored) -> dict[str, Any]:
    result, content = stored.result, stored.content
    reason = None if result.reason is None else in_one_line(result.reason, LONGEST_REASON)
    return {
        "id": sample.id,
        "prompt": sample.prompt,
        "concept": sample.concept,
        "role": sample.role,
        "group": sample.group,
        "category": sample.category,
        "seed": sample.seed,
        "source": sample.source,
        "strength": sample.strength,
        "status": result.status,
        "reason": reason,
        "image": {"bytes": content, "path": f"{sample.id}.png"} if content else None,
        "sha256": sha256(content) if content else None,
        "seconds": result.seconds,
    }


@contextmanager
def named(kind: str, name: str, kept: str = "; what is finished is kept") -> Iterator[None]:
    """Whatever a model's own code raises, in one line with its name; what is finished is on disk, but for tests."""
    try:
        yield
    except ClinometerError:
        raise
    except Exception as error:
        raise ModelError(f"{kind} {name}: it stopped with {describe(error)}{kept}") from error


def encode(run: Run, encoder: Encoder, progress: Progress) -> None:
    """Embed the texts of the suite and the images that this encoder has not seen.

    While texts or a part are embedded, the next part's images are decoded and resized, and the last one's vectors are
    written.

    Raises
    ------
    RunNotFoundError
        Images are still to be drawn.
    RunMismatchError
        The run holds embeddings of another encoder of that name.
    """
    name = encoder.card.name
    parts = run.parts
    missing = [part for part in parts if not run.has_embeddings(name, part)]
    require_drawn(run, f"clinometer score {run.url} --encoder {name}")
    run.begin_encoder(encoder.card)
    prepare, embed = _halves(encoder)
    done = len(run.plan) - sum(len(parts[part]) for part in missing)
    progress.start(f"encoding with {name}", len(run.plan), done)
    with (
        _forgotten(run, name),
        ThreadPoolExecutor(WORKERS) as decoders,
        ThreadPoolExecutor(1) as reader,
        _one_behind() as write,
    ):
        ahead = deque(reader.submit(_read_images, run, part, prepare, decoders) for part in missing[:1])
        with named("encoder", name):
            _encode_texts(run, encoder)
        width = next((len(vector) for vector in run.texts(name).values()), None)
        for index, part in enumerate(missing):
            with named("encoder", name):
                ids, images = ahead.popleft().result()
            if index + 1 < len(missing):
                ahead.append(reader.submit(_read_images, run, missing[index + 1], prepare, decoders))
            vectors = NO_VECTORS
            if images:
                with named("encoder", name):
                    vectors = require_vectors(embed(images), name, ids, width)
                width = vectors.shape[1]
            write(run.write_embeddings, name, part, ids, vectors)
            progress.advance(len(parts[part]))
    run.finish_encoder(encoder.card)
    progress.finish()


def require_drawn(run: Run, then: str = "") -> None:
    """Refuse a run of which images are still to be drawn.

    Raises
    ------
    RunNotFoundError
        The message names the way out, and what comes ``then``.
    """
    undrawn = sum(len(run.undrawn(part)) for part in run.parts)
    if undrawn:
        after = f", and then: {then}" if then else ""
        raise RunNotFoundError(
            f"{run.url}: {undrawn} of {len(run.plan)} images are not drawn yet; give the command that began the run "
            f"again{after}"
        )


@contextmanager
def _forgotten(run: Run, encoder: str) -> Iterator[None]:
    """Keep nothing of an encoder that gives no vectors: with one that cannot finish, a run would have no scores."""
    try:
        yield
    except NoVectorsError as error:
        run.forget_encoder(encoder)
        raise NoVectorsError(f"{error}; mend it, or name another encoder: what is drawn is kept") from error


def _halves(encoder: Any) -> tuple[Callable[[list[Any]], list[Any]], Callable[[list[Any]], np.ndarray]]:
    """What an encoder does to images before its model, and with it; one that does not tell them apart does all last."""
    if hasattr(encoder, "encode_prepared"):
        return encoder.prepare_images, encoder.encode_prepared
    return list, encoder.encode_images


def _read_images(
    run: Run, part: int, prepare: Callable[[list[Any]], list[Any]], decoders: Executor
) -> tuple[list[str], list[Any]]:
    """The images of a part that are there: ids and what an encoder's model takes of each."""
    rows = [row for row in run.read_images(part) if row["status"] == "ok"]

    # A few at a time: each call of an image processor, and each that waits for a thread, costs some of Python's time.
    size = min(AT_ONCE, max(1, len(rows) // (2 * WORKERS)))
    chunks = [rows[start : start + size] for start in range(0, len(rows), size)]
    prepared = decoders.map(
        lambda chunk: prepare([run.decoded(row["id"], row["image"]["bytes"]) for row in chunk]), chunks
    )
    return [row["id"] for row in rows], list(chain.from_iterable(prepared))


def _encode_texts(run: Run, encoder: Encoder) -> None:
    if run.has_texts(encoder.card.name):
        return
    reads_text = hasattr(encoder, "encode_texts")
    texts = run.suite.texts() if reads_text else []
    name = encoder.card.name
    vectors = require_vectors(encoder.encode_texts(texts), name, texts) if texts else NO_VECTORS
    run.write_texts(name, texts, vectors)


class NoVectorsError(ModelError):
    """What an encoder gave is not what it was asked for."""


def require_vectors(found: Any, encoder: str, names: Sequence[str], width: int | None = None) -> np.ndarray:
    """What an encoder gave, as (n, d) float32: a vector for each name, of one width with those before.

    A vector with NaN or infinity, or of zeros, would poison every score it enters, and is refused where it arises,
    before it is stored. A text without a word may have no direction: scores leave the blank prompt out then.
    """
    vectors = shaped_vectors(found, encoder, names, width)
    not_finite = ~np.isfinite(vectors).all(axis=1)
    zero = ~vectors.any(axis=1) & np.array([bool(name.strip()) for name in names], bool)
    for bad, what in ((not_finite, "not finite"), (zero, "zero, and have no direction")):
        if bad.any():
            raise NoVectorsError(
                f"encoder {encoder}: {int(bad.sum())} of {len(vectors)} embeddings are {what}, first that of "
                f"{names[int(bad.argmax())]!r}: its weights are damaged, or too large for the precision it runs in"
            )
    return vectors


def shaped_vectors(found: Any, encoder: str, names: Sequence[str], width: int | None = None) -> np.ndarray:
    """What an encoder gave, as (n, d) float32, whatever its numbers: one too few would give each its neighbour's."""
    try:
        vectors = np.asarray(found)
        with np.errstate(over="ignore"):  # named below
            vectors = vectors.astype(np.float32) if vectors.dtype.kind in "fiu" else np.zeros(())
    except (TypeError, ValueError, RuntimeError):  # a ragged list, a tensor with its gradient or on a device
        vectors = np.zeros(())
    if vectors.ndim != 2 or len(vectors) != len(names) or vectors.shape[1] != (width or vectors.shape[1] or -1):
        shape = f" of {found.dtype}, {tuple(found.shape)}" if hasattr(found, "shape") else ""
        raise NoVectorsError(
            f"encoder {encoder}: found {type(found).__name__}{shape}, expected an array of numbers, "
            f"({len(names)}, {width or 'dimension'}): a vector for each image or text, all of one length"
        )
    return vectors
