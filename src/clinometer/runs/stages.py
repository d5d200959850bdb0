"""The stages of a run: generate, encode, score. Each does what is missing and leaves the rest alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from clinometer.errors import ModelError
from clinometer.models.images import decode_image, encode_png, sha256
from clinometer.models.protocols import Encoder, GenerationRequest, GenerationResult, Generator
from clinometer.runs.plan import Sample
from clinometer.runs.progress import Progress
from clinometer.runs.store import Run


def generate(run: Run, generator: Generator, progress: Progress) -> None:
    """Draw the parts that are missing, of all samples that are drawn from a prompt alone."""
    draw_parts(run, None, lambda samples: generator.generate(requests_of(samples)), progress, "drawing")


def draw_parts(
    run: Run,
    role: str | None,
    draw: Callable[[Sequence[Sample]], Iterable[GenerationResult]],
    progress: Progress,
    title: str,
) -> None:
    """Make the missing parts that hold samples of a role; without one, those of samples made from no other.

    Batches never cross a part, so a run that was stopped draws the remaining parts exactly as it would have.
    Compressing and writing a part happens beside the drawing of the next.
    """
    parts = {
        part: samples
        for part, samples in run.parts.items()
        if (samples[0].role == role if role is not None else not samples[0].source)
    }
    missing = [part for part in parts if not run.has_samples(part)]
    total = sum(map(len, parts.values()))
    progress.start(title, total, total - sum(len(parts[part]) for part in missing))
    with ThreadPoolExecutor(max_workers=1) as writer:
        written = None
        for part in missing:
            results = []
            for result in draw(parts[part]):
                results.append(result)
                progress.advance(1)
            if written is not None:
                written.result()  # a full disk ends the run here, with every earlier part whole
            written = writer.submit(_write_part, run, part, parts[part], results)
        if written is not None:
            written.result()
    progress.finish()


def requests_of(samples: Sequence[Sample]) -> Iterator[GenerationRequest]:
    """What a generator is asked for samples that are drawn from a prompt alone."""
    return (GenerationRequest(id=s.id, prompt=s.prompt, seed=s.seed) for s in samples)


def _write_part(run: Run, part: int, samples: Sequence[Sample], results: Sequence[GenerationResult]) -> None:
    by_id = {result.id: result for result in results}
    lost = [sample.id for sample in samples if sample.id not in by_id]
    if lost:
        raise ModelError(f"the generator gave no result for {len(lost)} of {len(samples)} requests, first {lost[0]}")
    run.write_samples(part, [_row(sample, by_id[sample.id]) for sample in samples])


def _row(sample: Sample, result: GenerationResult) -> dict[str, Any]:
    content = encode_png(result.image) if result.image is not None else None
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
        "reason": result.reason,
        "image": {"bytes": content, "path": f"{sample.id}.png"} if content else None,
        "sha256": sha256(content) if content else None,
        "seconds": result.seconds,
    }


def encode(run: Run, encoder: Encoder, progress: Progress) -> None:
    """Embed the texts of the suite and the images that this encoder has not seen."""
    run.add_encoder(encoder.card)
    name = encoder.card.name
    _encode_texts(run, encoder)
    parts = run.parts
    missing = [part for part in parts if not run.has_embeddings(name, part)]
    done = len(run.plan) - sum(len(parts[part]) for part in missing)
    progress.start(f"encoding with {name}", len(run.plan), done)
    with ThreadPoolExecutor(max_workers=1) as reader:
        upcoming = [reader.submit(_read_images, run, part) for part in missing[:1]]
        for index, part in enumerate(missing):
            ids, images = upcoming.pop().result()
            if index + 1 < len(missing):  # decode the next part's images while this one's are embedded
                upcoming.append(reader.submit(_read_images, run, missing[index + 1]))
            vectors = encoder.encode_images(images) if images else np.zeros((0, 1), np.float32)
            run.write_embeddings(name, part, ids, require_finite(vectors, name, ids))
            progress.advance(len(parts[part]))
    progress.finish()


def _read_images(run: Run, part: int) -> tuple[list[str], list[Any]]:
    """The images of a part that are there: ids and decoded pictures."""
    rows = [row for row in run.read_samples(part) if row["status"] == "ok"]
    return [row["id"] for row in rows], [decode_image(row["image"]["bytes"]).image for row in rows]


def _encode_texts(run: Run, encoder: Encoder) -> None:
    if run.has_texts(encoder.card.name):
        return
    reads_text = hasattr(encoder, "encode_texts")
    texts = run.suite.texts() if reads_text else []
    vectors = encoder.encode_texts(texts) if reads_text else np.zeros((0, 1), np.float32)
    run.write_texts(encoder.card.name, texts, require_finite(vectors, encoder.card.name, texts))


def require_finite(vectors: np.ndarray, encoder: str, names: Sequence[str]) -> np.ndarray:
    """An embedding with NaN or infinity would poison every score it enters; it is refused where it arises."""
    bad = ~np.isfinite(vectors).all(axis=1)
    if bad.any():
        raise ModelError(
            f"encoder {encoder}: {int(bad.sum())} of {len(vectors)} embeddings are not finite, first that of "
            f"{names[int(bad.argmax())]!r}; try --dtype float32, and --encoder with other weights"
        )
    return vectors
