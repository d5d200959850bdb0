"""Draw missing parts, each once, and trace what a model predicts on the way to its images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from decimal import ROUND_CEILING, Decimal
from itertools import chain
from typing import Any, Final, get_args

import numpy as np
from PIL.Image import Image, Resampling

from clinometer._cores import WORKERS, WeightGate, available_cores, one_behind, unbroken
from clinometer._memory import give_back
from clinometer._messages import quoted
from clinometer._secrets import without_home
from clinometer.errors import ModelError
from clinometer.models.images import BYTES_A_PIXEL, encode_png, ending_of, sha256
from clinometer.models.protocols import (
    Converts,
    EmbedsInPassing,
    Encoder,
    Estimate,
    GenerationRequest,
    GenerationResult,
    Generator,
    Priced,
    Remembers,
    Status,
    Traces,
    offers,
)
from clinometer.models.readers import Reader
from clinometer.models.weights import in_one_line
from clinometer.runs.embeddings import LEAVES_OUT, NO_VECTORS, require_vectors
from clinometer.runs.encoding import PartEncoder, forget_on_failure, remaining_images
from clinometer.runs.plan import Sample
from clinometer.runs.progress import LONGEST_REASON, Failures, Progress, naming_errors
from clinometer.runs.run import Run

PIXEL_BYTES: Final = 2**28
"""Decoded images that wait to be compressed."""


def generate(run: Run, generator: Generator, progress: Progress) -> None:
    """Draw the parts that are missing, of all samples that are drawn from a prompt alone."""
    failures = Failures(run)
    note_drawn_images(generator, run, edits=False)

    def draw(samples: Sequence[Sample]) -> Iterator[GenerationResult]:
        batch_size = generator.batch_size
        yield from failures.check(samples, generator.generate(requests_of(samples)))
        if generator.batch_size < batch_size:
            run.record_batch_size(generator.batch_size)
            progress.note(f"memory ran out: batches of {generator.batch_size} from here on; nothing is lost")

    with failures.forget_on_failure():
        title = "drawing" if run.record["origin"] == "generated" else "reading"
        draw_parts(run, None, draw, progress, title, paid=price_of(generator) > 0, generator=generator)
        failures.require_one(sample for sample in run.plan if not sample.source)
    if run.is_whole and offers(generator, Converts):
        tell_conversions(generator.conversions, progress)


def tell_conversions(converted: Mapping[str, int], progress: Progress) -> None:
    """Note how images were converted as they were read from files, and how many."""
    if converted:
        summary = "; ".join(f"{what} ({images})" for what, images in sorted(converted.items()))
        progress.note(f"converted as they were read, and how many images: {summary}")


def note_drawn_images(model: Any, run: Run, *, edits: bool) -> None:
    """Tell a model that keeps track of it whether the run already holds images that it drew, or edited."""
    if offers(model, Remembers) and not model.has_drawn:
        model.has_drawn = run.drawn.has_image(edited=edits)


def requests_of(samples: Sequence[Sample]) -> Iterator[GenerationRequest]:
    """Return what a generator is asked for samples that are drawn from a prompt alone."""
    return (GenerationRequest(id=s.id, prompt=s.prompt, seed=s.seed) for s in samples)


def draw_parts(
    run: Run,
    role: str | None,
    draw: Callable[[Sequence[Sample]], Iterable[GenerationResult]],
    progress: Progress,
    title: str,
    *,
    paid: bool,
    generator: Generator | None = None,
) -> None:
    """Make the missing parts of a run that hold samples of a role; ``role=None``: parts drawn from prompts, not edits.

    Batches never cross a part, so a run that was stopped draws the remaining parts exactly as it would have. What was
    drawn of the part in hand is kept where it was paid for; else it is drawn again, in the batches it would have had.
    Images are compressed as they come and a part is written beside the drawing of the next. No more than two parts are
    held: a disk that is slower than the model slows it down. Finished images may be of any size, so of them one part is
    held, and no more than `PIXEL_BYTES` wait to be compressed. The encoders of a ``generator`` that has some embed a
    part as soon as it is written.
    """
    parts = {
        part: samples
        for part, samples in run.parts.items()
        if (samples[0].role == role if role is not None else not samples[0].source)
    }
    undrawn = {part: run.drawn.missing(part) for part in parts}
    total = sum(map(len, parts.values()))
    alone, room = run.record["origin"] == "imported", WeightGate(PIXEL_BYTES)
    threads = available_cores() if alone else WORKERS  # no model is at work beside them while files are read
    progress.start(title, total, total - sum(map(len, undrawn.values())))
    with ThreadPoolExecutor(threads) as pool, one_behind() as write:
        passing, tracer = InPassing(run, generator, pool, room, threads, write), tracer_of(run, generator)
        for part, rest in undrawn.items():
            samples = list(rest)
            if not samples:
                continue
            results: list[Future[GenerationResult]] = []
            try:
                for drawn in _results(draw, samples, run.model_card["name"]):
                    result = drawn if tracer is None else tracer.take(drawn)
                    results.append(_storing(result, pool, room))
                    passing.see(result, len(samples))
                    progress.advance(1)
                    del drawn, result  # its image
                if alone:
                    _write_part(run, part, samples, results, paid)
                    size = sum(len(future.result().content or b"") for future in results)
                    results.clear()
                    passing.embed(part, samples)
                    give_back(size)
                else:
                    write(_write_part, run, part, samples, results, paid)  # raises what went wrong with the part before
                    if tracer is not None and (seen := tracer.taken(part, samples)):
                        write(tracer.write, part, seen)
            except BaseException:  # the user stops it, too
                if paid:
                    with unbroken():
                        _keep_drawn(run, part, samples, results)
                raise
        passing.finish()
    progress.finish()


def _results(
    draw: Callable[[Sequence[Sample]], Iterable[GenerationResult]], samples: Sequence[Sample], name: str
) -> Iterator[GenerationResult]:
    """Yield what a generator gives, checked before it is stored: a plug-in may give anything, and without an end."""
    waiting = dict.fromkeys(sample.id for sample in samples)
    with naming_errors("generator", name):
        for result in draw(samples):
            _require_result(result, name)
            if result.id not in waiting:
                again = any(result.id == sample.id for sample in samples)
                raise ModelError.mismatch(
                    f"generator {name}: it gave {'a second' if again else 'a'} result for {quoted(result.id)}"
                    f"{'' if again else ', which was not asked for'}; expected one for each request"
                )
            del waiting[result.id]
            yield result


def _require_result(result: Any, name: str) -> None:
    if not isinstance(result, GenerationResult):
        raise ModelError.wrong_type(f"generator {name}: found {type(result).__name__}, expected a GenerationResult")
    has_image = isinstance(result.image, Image)
    if result.status not in get_args(Status) or (result.status == "ok" and not has_image):
        detail = "with an image" if has_image else "without an image"
        raise ModelError.wrong_type(
            f"generator {name}, {quoted(result.id)}: found status {quoted(result.status)} {detail}, expected 'ok' with "
            "one, or 'refused', 'failed' or 'blank'"
        )
    if not (result.reason is None or isinstance(result.reason, str)) or not isinstance(result.seconds, int | float):
        raise ModelError.wrong_type(
            f"generator {name}, {result.id}: found reason {quoted(result.reason)} and seconds "
            f"{quoted(result.seconds)}, expected text or None, and a number"
        )
    if not (result.batch is None or isinstance(result.batch, str)):
        raise ModelError.wrong_type(
            f"generator {name}, {result.id}: found batch {quoted(result.batch)}, expected text or None"
        )
    if not isinstance(result.flagged, bool):
        raise ModelError.wrong_type(
            f"generator {name}, {result.id}: found flagged {quoted(result.flagged)}, expected True or False"
        )


def _storing(result: GenerationResult, pool: Executor, room: WeightGate) -> Future[GenerationResult]:
    """Return a result that will have its image as a file only; one that has its file, or no image, has it now."""
    if result.content is None and result.image is not None:
        return room.submit(pool, result.image.width * result.image.height * BYTES_A_PIXEL, _compress, result)
    stored: Future[GenerationResult] = Future()
    stored.set_result(replace(result, image=None))
    return stored


def _compress(result: GenerationResult) -> GenerationResult:
    assert result.image is not None
    return replace(result, image=None, content=encode_png(result.image))


def _write_part(
    run: Run, part: int, samples: Sequence[Sample], results: Sequence[Future[GenerationResult]], paid: bool
) -> None:
    with naming_errors("generator", run.model_card["name"]):
        by_id = {stored.id: stored for stored in (future.result() for future in results)}
    lost = [sample.id for sample in samples if sample.id not in by_id]
    if lost:
        if paid:
            _keep_drawn(run, part, samples, results)
        raise ModelError.incomplete(
            f"the generator gave no result for {len(lost)} of {len(samples)} requests, first {lost[0]}"
        )
    run.drawn.write(part, [_row(sample, by_id[sample.id]) for sample in samples])


def _keep_drawn(run: Run, part: int, samples: Sequence[Sample], results: Sequence[Future[GenerationResult]]) -> None:
    """Store the images of a part that stops halfway; failed ones are drawn with the rest when it is resumed."""
    drawn = (future.result() for future in results if future.exception() is None)
    by_id = {stored.id: stored for stored in drawn if stored.status != "failed"}
    run.drawn.keep(part, [_row(sample, by_id[sample.id]) for sample in samples if sample.id in by_id])


def _row(sample: Sample, result: GenerationResult) -> dict[str, Any]:
    content = result.content
    reason = None if result.reason is None else in_one_line(without_home(result.reason), LONGEST_REASON)
    return {name: cell for name, cell in asdict(sample).items() if name not in ("part", "file")} | {
        "status": result.status,
        "reason": reason,
        "image": {"bytes": content, "path": f"{sample.id}.{ending_of(content)}"} if content else None,
        "sha256": sha256(content) if content else None,
        "seconds": result.seconds,
        "flagged": result.flagged,
        "batch": None if result.batch is None else in_one_line(result.batch, LONGEST_REASON),
    }


# --- Pictures that another run has drawn already ---------------------------------------------------------------------


def take_pictures(run: Run, other: Run) -> int:
    """Copy the pictures of another run that this one would draw, and return how many. run.json names the other run.

    An id says the prompt, how often it came before, the seed and the model's card, so a picture of the same id is the
    same (decision 28). A picture that failed is left to be drawn, and edits are made again.
    """
    there = set(other.plan.column("id").to_pylist())
    taken, last = 0, (-1, list[dict[str, Any]]())
    for part in run.parts:
        if part in run.drawn.to_redraw:
            continue
        wanted = {sample.id: sample for sample in run.drawn.missing(part) if not sample.source and sample.id in there}
        kept = []
        for number in sorted(set(other.plan.parts_of(list(wanted)))):
            if not other.drawn.has(number):
                continue
            last = last if last[0] == number else (number, other.drawn.rows(number))
            for row in last[1]:
                sample = wanted.get(row["id"])
                if sample is not None and row["status"] != "failed":
                    drawn_for = {name: getattr(sample, name) for name in ("concept", "role", "group", "category")}
                    kept.append(row | drawn_for)
        run.drawn.keep(part, kept)
        taken += len(kept)
    if taken:
        name = other.url.rstrip("/").rpartition("/")[2]
        before = run.record.get("pictures_of", {})
        run.ledger.update(lambda _: {"pictures_of": before | {name: before.get(name, 0) + taken}})
    return taken


# --- What the rest of a run will cost, and whether its user agreed to it, before a cent is spent ---------------------


CENT: Final = Decimal("0.01")


def price_of(model: Generator | Reader) -> float:
    """Return what an image of a generator, or an answer of a reader, costs; 0 where it names no price."""
    return float(model.price_per_image) if offers(model, Priced) else 0.0


def require_budget(
    run: Run,
    generator: Generator | None,
    budget: float | None,
    *,
    further: int = 0,
    answers: Sequence[tuple[Reader, int]] = (),
) -> None:
    """Refuse to go on where what is missing costs more than ``budget``; free models need none.

    ::

        total = (images still to be drawn + images that later rounds may add at most) · price_per_image, up to the cent

    and the same of the ``answers`` that readers are still to give. Without a ``generator`` nothing is drawn.

    Raises
    ------
    ModelError
        No budget was given for a model with a price, or it is too small; the message says the total.
    """
    counted: list[tuple[Generator | Reader, int, str]] = [(reader, count, "answers") for reader, count in answers]
    if generator is not None:
        counted.insert(0, (generator, remaining_images(run) + further, "images"))
    priced = [each for each in counted if price_of(each[0])]
    total = sum(cost(count, price_of(model)) for model, count, _ in priced)
    if total == 0 or (budget is not None and total <= budget):
        return
    costs_in_words = ", and ".join(
        f"{model.card.name}: {count} {what} at {price_of(model):g} each" for model, count, what in priced
    )
    budget_in_words = "no budget" if budget is None else f"a budget of {budget:g}"
    fewer = "" if generator is None else ", or fewer images by --images and another --out"
    raise ModelError.over_budget(
        f"{costs_in_words} cost {total:.2f}, found {budget_in_words}; give --budget {total:.2f} or more{fewer}"
    )


def cost(images: float, price: float) -> float:
    """Return what images cost, rounded up to the cent in decimals: 3 at 0.1 cost 0.3, 9 at 0.0004 cost 0.01.

    >>> cost(3, 0.1), cost(9, 0.0004)
    (0.3, 0.01)
    """
    total = Decimal(repr(float(images))) * Decimal(repr(float(price)))
    return float(total.quantize(CENT, ROUND_CEILING)) if total.is_finite() else float(total)


# --- Encoding in passing ---------------------------------------------------------------------------------------------
#
# Finished images are embedded while their pixels are at hand, so that none is decoded twice. It is a short cut, and
# changes no vector. What it leaves out, the stage that encodes makes up for.


MOST_AT_ONCE: Final = 32
"""Images that a thread prepares in one go: each call of an image processor costs some of Python's time."""

MOST_BYTES: Final = 2**24
"""Of their pixels; one that is larger is prepared alone."""


class InPassing:
    """Embeds the images of part after part with the encoders of a generator that reads finished images.

    Parameters
    ----------
    pool, room : where images are prepared, and how many of them wait.
    threads : of the pool.
    write : called with a function and its arguments; see :class:`~clinometer.runs.encoding.PartEncoder`.
    """

    def __init__(
        self,
        run: Run,
        generator: Generator | None,
        pool: Executor,
        room: WeightGate,
        threads: int,
        write: Callable[..., None],
    ) -> None:
        self._run, self._pool, self._room, self._threads = run, pool, room, threads
        self._encoders: list[PartEncoder] = []
        self._proven: set[str] = set()
        if offers(generator, EmbedsInPassing):
            self._proven = generator.proven
            for encoder in generator.encoders:
                run.encoders.begin(encoder.card)
                with forget_on_failure(run, encoder.card.name):
                    part_encoder = PartEncoder(run, encoder, write)
                    part_encoder.read_texts()
                self._encoders.append(part_encoder)
        self._chunk: list[tuple[str, Image]] = []
        self._bytes = 0
        self._ids: list[str] = []
        self._prepared: dict[str, list[Future[list[Any]]]] = {}

    def see(self, result: GenerationResult, part_size: int) -> None:
        """Receive an image of a part of so many, on its way to storage."""
        if not self._encoders or result.status != "ok" or result.image is None:
            return
        # Another thread may be storing its pixels, and an encoder may write into what it is given.
        self._chunk.append((result.id, result.image.copy() if result.content is None else result.image))
        self._bytes += result.image.width * result.image.height * BYTES_A_PIXEL
        if self._bytes >= MOST_BYTES or len(self._chunk) >= min(MOST_AT_ONCE, max(1, part_size // (2 * self._threads))):
            self._hand_over()

    def _hand_over(self) -> None:
        """Prepare images for each encoder; what one does to them in place, the next must not see."""
        ids, images = [identifier for identifier, _ in self._chunk], [image for _, image in self._chunk]
        for encoder in self._encoders if images else ():
            copies = images if encoder is self._encoders[-1] else [image.copy() for image in images]
            task = self._room.submit(self._pool, self._bytes, encoder.prepare, copies)
            self._prepared.setdefault(encoder.name, []).append(task)
        self._ids += ids
        self._chunk, self._bytes = [], 0

    def embed(self, part: int, samples: Sequence[Sample]) -> None:
        """Embed what was seen of a part, which is written by now; of one that held some images before, nothing."""
        self._hand_over()
        ids, prepared = self._ids, self._prepared
        self._ids, self._prepared = [], {}
        if len(samples) != len(self._run.parts[part]):
            return
        for encoder in list(self._encoders):
            with self._in_passing(encoder):
                with naming_errors("encoder", encoder.name):
                    items = chain.from_iterable(task.result() for task in prepared.pop(encoder.name, ()))
                    by_id = dict(zip(ids, items, strict=True))
                sample_ids = [sample.id for sample in samples if sample.id in by_id]
                probe = bool(sample_ids) and encoder.name not in self._proven
                encoder.embed(part, sample_ids, [by_id.pop(identifier) for identifier in sample_ids], probe=probe)
                if probe:
                    self._proven.add(encoder.name)

    def finish(self) -> None:
        """Write what encoders have begun and not handed on."""
        for encoder in list(self._encoders):
            with self._in_passing(encoder):
                encoder.finish()

    @contextmanager
    def _in_passing(self, encoder: PartEncoder) -> Iterator[None]:
        """Go on without an encoder that fails: images are read all the same, and encoding meets its error."""
        try:
            yield
        except ModelError:
            self._encoders.remove(encoder)


# --- Tracing: what images were taken for on the way, drawn with them or again, embedded and kept part by part --------
#
# How it is stored, :mod:`clinometer.runs.traces` says. It follows from the images' own noise, so a part that is traced
# again is the same. See decision 59.


STRIP_SIDE: Final = 192
"""Pixels of their longer side, at most."""


class WatchedGenerator:
    """A generator whose intermediate images are kept, and the encoders that embed them.

    Parameters
    ----------
    generator : draws, and can be watched.
    encoders : who embeds what is seen.
    steps, decoder, latents : which steps to trace, how, and whether to keep the latents; see
        :meth:`clinometer.models.protocols.Traces.traced`.

    Raises
    ------
    ModelError
        The generator cannot be watched, or draws in no such step.
    """

    def __init__(
        self,
        generator: Generator,
        encoders: Sequence[Encoder],
        *,
        steps: Any = None,
        decoder: str | None = None,
        latents: bool = False,
    ) -> None:
        if not offers(generator, Traces):
            raise ModelError.unsupported(
                f"{generator.card.name}: a {generator.card.family} shows its finished images alone, and no steps of "
                "drawing them; give a diffusers model, or leave the trace out",
                field="trace",
            )
        self._watched = generator.traced(steps, decoder=decoder, keep_latents=latents)
        self.watchers = tuple(each for each in encoders if not each.card.settings.get(LEAVES_OUT))
        if encoders and not self.watchers:
            name = encoders[0].card.name
            raise ModelError.unsupported(
                f"{name}: it does not embed every image, and none of the first steps; add another encoder"
            )
        self.watches = {
            "steps": list(self._watched.traced_steps),
            "total": self._watched.traced_total,
            "decoder": decoder,
            "latents": latents,
        }

    @property
    def batch_size(self) -> int:
        """Images a call."""
        return int(self._watched.batch_size)

    @batch_size.setter
    def batch_size(self, size: int) -> None:
        self._watched.batch_size = size

    def __getattr__(self, name: str) -> Any:
        if name == "_watched":
            raise AttributeError(name)
        return getattr(self._watched, name)


class PartTracer:
    """Holds what is seen of the part in hand on the way to its images, until it is embedded and written."""

    def __init__(self, run: Run, watchers: Sequence[Encoder]) -> None:
        self._run, self.watchers = run, watchers
        self._seen: dict[str, Sequence[Estimate]] = {}

    def take(self, result: GenerationResult) -> GenerationResult:
        """Store what was seen on the way to an image, and return the rest."""
        if result.status == "ok":
            self._seen[result.id] = result.trace
        return replace(result, trace=())

    def taken(self, part: int, samples: Sequence[Sample]) -> dict[str, Sequence[Estimate]]:
        """Return what was seen of a part; nothing for one that held some images before, which is traced again."""
        seen, self._seen = self._seen, {}
        return seen if len(samples) == len(self._run.parts[part]) else {}

    def write(self, part: int, seen: Mapping[str, Sequence[Estimate]]) -> None:
        """Embed and write it; an image of which a step is missing, or not finite, is left out."""
        traces, steps = self._run.traces, self._run.traces.record["steps"]
        estimates: list[tuple[str, int, Any, np.ndarray | None]] = []
        for key, trace in seen.items():
            if [estimate.step for estimate in trace] == steps and all(estimate.image for estimate in trace):
                estimates += [(key, estimate.step, estimate.image, estimate.latents) for estimate in trace]
        images, vectors = [image for _, _, image, _ in estimates], dict[str, np.ndarray]()
        for encoder in self.watchers:
            name, names = encoder.card.name, [f"{key}, step {step}" for key, step, *_ in estimates]
            with naming_errors("encoder", name):
                vectors[name] = require_vectors(encoder.encode_images(images), name, names) if images else NO_VECTORS
        shown = traces.shown(part)
        latents = [values for *_, values in estimates if values is not None] if traces.record.get("latents") else None
        pictures: list[bytes | None] = []
        for key, _, image, _ in estimates:
            small = image.copy() if key in shown else None
            if small is not None:
                small.thumbnail((STRIP_SIDE, STRIP_SIDE), Resampling.LANCZOS)
            pictures.append(None if small is None else encode_png(small))
        traces.write(part, [(key, step) for key, step, *_ in estimates], vectors, pictures, latents)


def tracer_of(run: Run, generator: object) -> PartTracer | None:
    """Return the tracer of a generator that is watched; None for any other, and for a run that records no steps."""
    watchers = getattr(generator, "watchers", None)
    return None if watchers is None or not run.traces.record else PartTracer(run, watchers)


def parts_without_trace(run: Run, generator: Generator) -> list[int] | None:
    """List the parts that lack their trace; None for a generator that is not watched."""
    watchers = getattr(generator, "watchers", None)
    return None if watchers is None else run.traces.missing([encoder.card.name for encoder in watchers])


def trace_parts(run: Run, generator: Generator, progress: Progress) -> None:
    """Draw again the images of the parts that lack their trace, and keep what is seen on the way.

    They are drawn in the batches of their part, and the same as those that are there, on the machine that drew them: of
    others a note says how many.
    """
    missing, tracer = parts_without_trace(run, generator), tracer_of(run, generator)
    if not missing or tracer is None:
        return
    parts, others, again = run.parts, 0, 0
    progress.start("tracing", len(run.plan), len(run.plan) - sum(len(parts[part]) for part in missing))
    for part in missing:
        hashes, samples = run.answers.hashes(part), list(parts[part])
        requests = [GenerationRequest(id=s.id, prompt=s.prompt, seed=s.seed) for s in samples]
        with naming_errors("generator", run.model_card["name"]):
            for result in generator.generate(requests):
                if result.image is not None and result.id in hashes:
                    again += 1
                    others += sha256(encode_png(result.image)) != hashes[result.id]
                    tracer.take(result)
        tracer.write(part, tracer.taken(part, samples))
        progress.advance(len(samples))
    progress.finish()
    if others:
        progress.note(
            f"{others} of {again} images that were drawn again differ from those of the run: another machine, device "
            "or version drew them; the trace is that of the new ones"
        )
