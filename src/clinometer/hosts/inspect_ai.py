"""An audit as a task of inspect_ai: a sample is an image, and the metrics are the estimates of the finished run.

``inspect eval clinometer/audit`` finds the task by the entry point ``clinometer`` of the group ``inspect_ai``. Its
samples are the plan of the audit. The solver draws each with a generator of clinometer (``-T model=…``) or with
inspect's model, and stores it in a folder next to the run directory; once all are there, an ordinary audit reads them
from that folder in place of a generator. So the numbers in the log are those of the run directory.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import anyio.to_thread
import numpy as np
from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError  # as other packages of tasks import it: no public module has it
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ContentImage, ContentText, ModelOutput, get_model
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver
from rich.markup import escape

from clinometer._messages import shortened
from clinometer.errors import ClinometerError, InvalidInputError, SuiteError
from clinometer.models.images import decode_file, encode_png, ending_of
from clinometer.models.openai.replies import Reply
from clinometer.models.protocols import (
    Card,
    Encoder,
    GenerationRequest,
    GenerationResult,
    Generator,
    ReadsTexts,
    offers,
)
from clinometer.pipeline.audits import Workers, default_out, settle_batch_size, suite_and_rounds
from clinometer.pipeline.audits import audit as run_audit
from clinometer.pipeline.execution import part_size_of
from clinometer.pipeline.recipes import Models, require_texts
from clinometer.pipeline.request import AuditRequest, ask
from clinometer.readings.fit import require_learned
from clinometer.runs import Directory, NoProgress, Run
from clinometer.runs.drawing import cost, price_of
from clinometer.runs.ledger import RECORD
from clinometer.runs.plan import build_plan
from clinometer.runs.record import card_record
from clinometer.runs.run import require_run_or_nothing
from clinometer.stats.association import nearest_group, unit_vectors
from clinometer.studies import study_of
from clinometer.suites import Suite
from clinometer.tracking.content import numbers_of

KEPT: Final = ("status", "reason", "seconds", "flagged", "batch")
"""The fields of a result that are kept with its image."""

MEDIA: Final = {"png": "image/png", "jpg": "image/jpeg", "webp": "image/webp"}


class KeptImages:
    """The images that samples have drawn so far, in a folder: a generator for the audit, and for a repeated task.

    Other attributes are those of the ``generator`` that drew them, if there is one. The folder has ``ID.json``, the
    outcome of a request, and ``ID.image``, the file of its image.
    """

    batch_size = 1
    price_per_image = 0.0
    """The images are paid for already."""

    def __init__(self, card: Card, folder: Path, generator: Generator | None) -> None:
        self.card, self.folder, self._generator = card, folder, generator
        if generator is not None:
            self.batch_size = generator.batch_size
        self.ids = {path.stem for path in folder.glob("*.json")}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or self._generator is None:
            raise AttributeError(name)
        return getattr(self._generator, name)

    def keep(self, result: GenerationResult, file: bytes | None) -> None:
        """Write an image and then its outcome: a result that can be read is whole."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if file is not None:
            (self.folder / f"{result.id}.image").write_bytes(file)
        outcome = {name: getattr(result, name) for name in KEPT}
        unfinished = self.folder / f"{result.id}.unfinished"
        unfinished.write_text(json.dumps(outcome), encoding="utf-8")
        unfinished.replace(self.folder / f"{result.id}.json")
        self.ids.add(result.id)

    def keep_those_of(self, run: Run) -> None:
        """Reuse the images that a run already holds."""
        for part in filter(run.drawn.has, run.parts):
            for row in run.drawn.rows(part):
                if row["id"] not in self.ids:
                    outcome = {name: row[name] for name in KEPT}
                    self.keep(GenerationResult(row["id"], image=None, **outcome), (row["image"] or {}).get("bytes"))

    def forget_failed(self) -> None:
        """Forget the images that failed, so that they are drawn again."""
        for identifier in sorted(self.ids):
            if self.result(identifier).status == "failed":
                (self.folder / f"{identifier}.json").unlink()
                self.ids.remove(identifier)

    def file(self, identifier: str) -> bytes | None:
        """Return the file of an image; None where there is no image."""
        image = self.folder / f"{identifier}.image"
        return image.read_bytes() if image.exists() else None

    def result(self, identifier: str) -> GenerationResult:
        """Return the outcome of a request."""
        outcome = json.loads((self.folder / f"{identifier}.json").read_text(encoding="utf-8"))
        file = self.file(identifier)
        if file is None:
            return GenerationResult(identifier, image=None, **outcome)
        decoded, content = decode_file(file)
        return GenerationResult(identifier, image=decoded.image, content=content, **outcome)

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        """Yield the outcome of each request."""
        yield from (self.result(request.id) for request in requests)


class HostedAudit:
    """An audit whose images inspect's samples draw, in any order.

    ``generator`` draws them; where it is None, inspect's model does.
    """

    def __init__(self, request: AuditRequest, suite: Suite, generator: Generator | None, card: Card) -> None:
        study = study_of(suite)
        if study.overrides("check") or study.overrides("extend_plan"):
            raise SuiteError.unsupported(
                f"suite {suite.name}: its study needs the model beyond its images; give: clinometer audit --suite "
                f"{suite.name}"
            )
        require_learned(card_record(card), suite)
        self.suite, self.generator, self.lock = suite, generator, anyio.Lock()
        self.out = Path(request.out or default_out(card, suite)).absolute()
        require_run_or_nothing(Directory(self.out))
        if generator is not None:
            settle_batch_size(self.out, generator, suite, NoProgress())
        self.drawn = KeptImages(card, self.out.with_name(f"{self.out.name}.inspect"), generator)
        self.plan = build_plan(
            suite.prompt_specs(), seed=request.seed, model_fingerprint=card.fingerprint,
            part_size=part_size_of(self.drawn),
        )  # fmt: skip
        self.places = {sample.id: place for place, sample in enumerate(self.plan)}
        if Directory(self.out).exists(RECORD):
            run = Run(str(self.out))
            if {sample.id for sample in run.plan} != self.places.keys():
                raise InvalidInputError.mismatch(
                    f"{self.out} holds an audit of another model, suite, seed or size; give another", field="out"
                )
            self.drawn.keep_those_of(run)
        if request.retry_failed:
            self.drawn.forget_failed()
        self.encoders: Sequence[Encoder] = ()
        if study.encoders_needed:
            prescribed = None if request.protocol is None else suite.protocol
            usual = (() if prescribed is None else prescribed.encoders) or "reference"
            self.encoders = Models().encoders(usual if request.encoder is None else request.encoder, request.device)[0]
            require_texts(self.encoders, suite, until=False)
        self.request = request.model_copy(
            update={"model": self.drawn, "out": self.out, "encoder": self.encoders or None}
            | dict.fromkeys(("model_options", "steps", "guidance_scale", "batch_size", "budget"))
        )
        self.numbers: Mapping[str, float] | None = None
        self._require_budget(request.budget)

    def _require_budget(self, budget: float | None) -> None:
        price = 0.0 if self.generator is None else price_of(self.generator)
        total = cost(len(self.places.keys() - self.drawn.ids), price)
        if total and (budget is None or total > budget):
            budgeted = "no budget" if budget is None else f"a budget of {budget:g}"
            raise InvalidInputError.over_budget(
                f"the images cost {total:.2f}, found {budgeted}; give -T budget={total:.2f} or more", field="budget"
            )

    @property
    def is_drawn(self) -> bool:
        """Return whether every image of the plan has been drawn or has failed."""
        return self.places.keys() <= self.drawn.ids

    async def draw(self, identifier: str) -> None:
        """Draw the image of a sample, and the others of its batch."""
        async with self.lock:
            if identifier not in self.drawn.ids:
                await anyio.to_thread.run_sync(self._draw_batch, identifier)

    def _draw_batch(self, identifier: str) -> None:
        """Draw what is missing of the plan's batch with this sample, so that batches are those of an audit."""
        assert self.generator is not None
        size = self.generator.batch_size
        first = self.places[identifier] // size * size
        missing = [each for each in self.plan[first : first + size] if each.id not in self.drawn.ids]
        requests = [GenerationRequest(each.id, each.prompt, each.seed) for each in missing]
        for result in self.generator.generate(requests):
            self.drawn.keep(result, result.content or (None if result.image is None else encode_png(result.image)))

    def answer(self, identifier: str, output: ModelOutput) -> None:
        """Store the first image that inspect's model answered with, or why there is none."""
        content = output.message.content if output.choices else output.completion
        parts = [ContentText(text=content)] if isinstance(content, str) else content
        images = [part.image for part in parts if isinstance(part, ContentImage)]
        words = "\n".join(part.text for part in parts if isinstance(part, ContentText))
        seconds = output.time or 0.0
        if images:
            self._keep_file(identifier, images[0], seconds)
            return
        status, reason = Reply(words=words, finish=output.stop_reason, error=output.error).without_image()
        self.drawn.keep(
            GenerationResult(identifier, "refused" if status == "refused" else "failed", None, reason, seconds), None
        )

    def _keep_file(self, identifier: str, image: str, seconds: float) -> None:
        """Store an image that came as a ``data:`` URI; any other is an address, and nothing is fetched."""
        file, reason = b"", f"the image is at an address, which is not fetched: {shortened(image)}"
        if image.startswith("data:"):
            try:
                file = base64.b64decode(image.partition(",")[2])
            except ValueError as error:
                reason = f"the image is not base64: {error}"
        if not file:
            self.drawn.keep(GenerationResult(identifier, "failed", None, reason, seconds), None)
            return
        decoded = decode_file(file)[0]
        kept = GenerationResult(identifier, decoded.status, None, decoded.reason, seconds)
        self.drawn.keep(kept, None if decoded.image is None else file)

    def output(self, identifier: str) -> ModelOutput:
        """Return what became of a request as inspect shows it: the image, or why there is none."""
        result = self.drawn.result(identifier)
        file = self.drawn.file(identifier)
        if file is None:
            stop = "content_filter" if result.status == "refused" else "unknown"
            return ModelOutput.from_content(self.drawn.card.name, result.reason or result.status, stop)
        url = f"data:{MEDIA.get(ending_of(file), 'image/png')};base64,{base64.b64encode(file).decode('ascii')}"
        return ModelOutput.from_content(self.drawn.card.name, [ContentImage(image=url)])

    @cached_property
    def reader(self) -> Encoder | None:
        """The encoder that reads single images: the first that embeds texts."""
        return next((each for each in self.encoders if offers(each, ReadsTexts)), None)

    @cached_property
    def words(self) -> Mapping[str, np.ndarray]:
        """The mean unit vector of each group's words; none where an image is not read by itself."""
        words = study_of(self.suite).reading_words(self.suite)
        if self.reader is None or len(words) < 2 or not all(words.values()):
            return {}
        return {group: unit_vectors(self.reader.encode_texts(list(some))).mean(axis=0) for group, some in words.items()}

    def read(self, identifier: str) -> Score:
        """Score an image by its mean cosine with each group's words: a value a group, in [−1, 1]."""
        result = self.drawn.result(identifier)
        metadata = {"status": result.status} | ({"reason": result.reason} if result.reason else {})
        if result.image is None or result.status != "ok":
            reason = "refusal" if result.status == "refused" else "no_response"
            return Score.unscored(reason=reason, explanation=result.reason, metadata=metadata)
        if self.reader is None or not self.words:
            why = "this suite reads no image by itself; the metrics hold what all of them say"
            return Score.unscored(reason="scoring_failed", explanation=why, metadata=metadata)
        image = unit_vectors(self.reader.encode_images([result.image]))
        cosines = np.stack([image @ mean for mean in self.words.values()], axis=1)
        nearest = list(self.words)[int(nearest_group(cosines)[0])]
        values = dict(zip(self.words, cosines[0].tolist(), strict=True))
        return Score(value=values, answer=nearest, metadata=metadata | {"encoder": self.reader.card.name})

    async def score(self, identifier: str) -> Score:
        """Score an image; after the last one of the plan, audit them all."""
        async with self.lock:
            score = await anyio.to_thread.run_sync(self.read, identifier)
            if self.numbers is None and self.is_drawn:
                self.numbers = await anyio.to_thread.run_sync(self.finish)
        return score

    def finish(self) -> Mapping[str, float]:
        """Build the run from all images, and return its numbers by name."""
        run_audit(self.request, Models(), Workers(), NoProgress())
        return numbers_of(Run(str(self.out)))


_AUDITS: Final = dict[str, HostedAudit]()
"""The audits of this process, by their run directories: arguments of solvers and scorers are logged as text."""


def _audit_in(out: str) -> HostedAudit:
    if out not in _AUDITS:
        raise InvalidInputError.not_found(
            f"{out}: no audit of this process; its images are scored by the task clinometer/audit, and once more by: "
            f"clinometer score {out}"
        )
    return _AUDITS[out]


@task
def audit(suite: str = "reference", model: str = "", **options: Any) -> Task:
    """Audit the text-to-image model ``model``, or inspect's own model where it is left out.

    The metrics of the log are those that are sent to trackers: each judged number with ``/low`` and ``/high``, the ends
    of its interval, and how many concepts have each verdict. Scores of samples are readings of one image each: its mean
    cosine with the words of each group, which of two groups differ by ITA of that image.

    Parameters
    ----------
    suite : a built-in suite or a YAML file whose study needs nothing of a model beyond its images.
    model : a generator as :func:`clinometer.audit` takes it.
    **options : further options of :func:`clinometer.audit`, by their names there. ``out``, the run directory, is by
        default ``runs/MODEL-SUITE``; one that holds part of the same audit is continued, and its images are not drawn
        again.

    Raises
    ------
    PrerequisiteError
        The suite, the model or an option is wrong: it says what was found, what was expected, and the way out.
    """
    try:
        hosted = _hosted(suite, model, options)
    except ClinometerError as error:
        raise PrerequisiteError(escape(str(error))) from error  # which inspect prints without a traceback
    out = str(hosted.out)
    _AUDITS[out] = hosted
    samples = [
        Sample(
            id=each.id, input=each.prompt, target=each.concept or each.group,
            metadata={"concept": each.concept, "group": each.group, "role": each.role, "seed": each.seed},
        )
        for each in hosted.plan
    ]  # fmt: skip
    card = hosted.drawn.card
    return Task(
        dataset=MemoryDataset(samples, name=hosted.suite.name),
        solver=draw_image(out),
        scorer=read_image(out),
        metrics=[estimates(out)],
        model=get_model("none") if model else None,
        metadata={"run": out, "model": card.name, "model_fingerprint": card.fingerprint},
    )


NOT_TAKEN: Final = ("until", "portraits", "trace", "reader", "workers", "registration")
"""Options of an audit that a task refuses: they need more than images, or are about how these are drawn."""


def _hosted(suite: str, model: str, options: Mapping[str, Any]) -> HostedAudit:
    request = ask(suite=suite, model=model or "reference", **options)
    refused = next((name for name in NOT_TAKEN if getattr(request, name)), None)
    if refused or request.engine != "local":
        raise InvalidInputError.unsupported(
            "a task of inspect_ai does not take it; give it to clinometer audit", field=refused or "engine"
        )
    loaded, _ = suite_and_rounds(request)
    if not model:
        option = next((name for name, value in request.adapter_options.items() if value not in (None, "auto")), None)
        if option:
            raise InvalidInputError.unsupported(
                "inspect's model does not take it; leave it out, or give -T model", field=option
            )
        hosts_model = get_model()
        settings = hosts_model.config.model_dump(exclude_none=True, mode="json") | {"seed_sent": False}
        return HostedAudit(request, loaded, None, Card("generator", str(hosts_model), "inspect_ai", settings=settings))
    prefer = {} if request.protocol is None or loaded.protocol is None else loaded.protocol.sampling
    generator = Models().generator(request.model, request.adapter_options, request.device, prefer=prefer)[0]
    return HostedAudit(request, loaded, generator, generator.card)


@solver
def draw_image(out: str) -> Solver:
    """Draw a sample's image; ``out`` is the run directory of the task."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        hosted, identifier = _audit_in(out), str(state.sample_id)
        if state.epoch > 1:
            raise InvalidInputError.unsupported(
                "an audit has one epoch; for more images give -T images=N", field="epochs"
            )
        if hosted.generator is not None:
            await hosted.draw(identifier)
        elif identifier not in hosted.drawn.ids:
            state = await generate(state, modalities=["image"])
            hosted.answer(identifier, state.output)
            return state
        state.output = hosted.output(identifier)
        state.messages.append(state.output.message)
        return state

    return solve


@scorer(metrics=[])
def read_image(out: str) -> Scorer:
    """Score a sample by what its image is read as; ``out`` is the run directory of the task."""

    async def score(state: TaskState, target: Target) -> Score:
        return await _audit_in(out).score(str(state.sample_id))

    return score


@metric
def estimates(out: str) -> Metric:
    """Report the numbers of the finished run; of one that lacks images, how many of them are there."""

    def numbers(scores: list[SampleScore]) -> dict[str, float]:
        hosted = _AUDITS.get(out)
        if hosted is None:
            return dict(numbers_of(Run(out)))
        if hosted.numbers is None and hosted.is_drawn and not hosted.lock.locked():
            hosted.numbers = hosted.finish()  # every sample was taken from the log of an earlier evaluation
        if hosted.numbers is None:
            drawn = len(hosted.places.keys() & hosted.drawn.ids)
            return {"images drawn": float(drawn), "images planned": float(len(hosted.plan))}
        return dict(hosted.numbers)

    return numbers
