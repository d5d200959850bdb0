"""What a trace costs and shows on the reference model: ``python -m benchmarks.tracing FOLDER [cost exit tilted]``.

``cost`` prints processor seconds of drawing with and without a trace, and what a step of it may cost. ``exit`` audits
twelve concepts of the reference model with a trace, and prints how far each step's verdicts are those of the finished
images. ``tilted`` does so with a model whose text encoder was tilted: words of four concepts that the network was
taught to draw half and half moved towards "man" until their text leans, beside four that the network was planted with
and whose words are as they were.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from time import process_time
from typing import Any, Final

import numpy as np

import clinometer as cm
from clinometer.models import load_encoder, load_generator, reference
from clinometer.models.encoders.own_text import own_text_encoders
from clinometer.models.protocols import GenerationRequest
from clinometer.suites import load_suite, suite_from_mapping

STEPS: Final = "1,2,3,4,6,8,10,12,14,16"
TILTED: Final = ("guard", "walking", "running", "juggling")
"""Concepts that the network was taught to draw half men and half women."""

PLANTED: Final = ("mechanic", "golfing", "singer", "meditating")
"""Concepts that it was taught to draw mostly as men, two of them, and mostly as women."""


EARLY: Final = (
    "firefighter", "mechanic", "pilot", "detective", "farmer", "student", "guard", "artist", "cook", "teacher",
    "singer", "massage",
)  # fmt: skip
"""Concepts from 90 to 10 % planted men."""


def suite(concepts: tuple[str, ...] = (), *, target: int = 20, attribute: int = 6) -> Any:
    """Return the reference suite of two groups, and of some concepts where they are named."""
    whole = load_suite("reference").model_dump(mode="json")
    del whole["groups"]["nonbinary"]
    whole["axis"] = {name: whole["axis"][name] for name in ("a", "b")}
    for category in whole["categories"].values():
        category["targets"] = [t for t in category["targets"] if not concepts or t["name"] in concepts]
    whole["categories"] = {name: own for name, own in whole["categories"].items() if own["targets"]}
    whole |= {"name": "traced", "images": {"target": target, "attribute": attribute}}
    return suite_from_mapping(whole, source="traced")


def tilt(folder: Path, concepts: tuple[str, ...] = TILTED, *, leaning: float = 0.25) -> str:
    """Save the reference model with its text encoder tilted, and nothing else changed, in a folder of its name.

    By that name its own CLIP knows that it can judge the images.

    The tokens that a concept's prompt has and no prompt of a group move along the mean word of men less that of women,
    until the prompt lies nearer to men's words than to women's by ``leaning``, as the encoder reads it. Prompts without
    these tokens, those of the groups among them, draw the same images bit for bit.
    """
    generator, whole = load_generator("reference", device="cpu"), load_suite("reference")
    pipeline, (encoder,) = generator.pipeline, own_text_encoders(generator)
    table = pipeline.text_encoder.get_input_embeddings().weight.data

    def tokens(*texts: str) -> set[int]:
        return {token for text in texts for token in pipeline.tokenizer(text, add_special_tokens=False).input_ids}

    words = [[word for word in whole.groups[group].words if len(tokens(word)) == 1] for group in ("man", "woman")]
    towards = table[sorted(tokens(*words[0]))].mean(dim=0) - table[sorted(tokens(*words[1]))].mean(dim=0)
    kept = tokens(*(p.prompt for group in whole.groups.values() for p in group.prompts))

    def unit(texts: list[str]) -> np.ndarray:
        vectors = encoder.encode_texts(texts)
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))

    direction = np.subtract(*(unit(own).mean(axis=0) for own in words))
    for target in (t for t in whole.targets if t.name in concepts):
        own = sorted(tokens(target.prompt) - kept)
        for _ in range(40):
            if unit([target.prompt])[0] @ direction >= leaning:
                break
            table[own] += 0.1 * towards
    shutil.copytree(reference.pipeline_path(), folder / "reference")
    pipeline.text_encoder.save_pretrained(folder / "reference" / "text_encoder")
    return str(folder / "reference")


def cost(rounds: int = 7, batch: int = 8, k: int = 6) -> None:
    """Print processor seconds of a batch drawn in ``k`` steps and embedded, all of them traced and none, turn by turn.

    Looking at k of n steps may cost k/n of what it costs to decode and embed finished images n times, and 5 % more. So
    each step may cost what the finished images cost; of few steps, the drawing hides little of that.
    """
    from PIL import Image

    from clinometer._torch import torch

    torch.set_num_threads(1)
    generator: Any = load_generator("reference", device="cpu", batch_size=batch, steps=k)
    encoder, traced, pipeline = load_encoder("reference", device="cpu"), generator.traced(k), generator.pipeline
    requests = [GenerationRequest(str(seed), "an image of a teacher", seed) for seed in range(batch)]
    results = list(traced.generate(requests))
    images = [result.image for result in results]
    seen = [estimate.image for result in results for estimate in result.trace]
    shape = batch, pipeline.unet.config.in_channels, pipeline.unet.config.sample_size, pipeline.unet.config.sample_size
    latents = torch.randn(shape, generator=torch.Generator().manual_seed(0))

    def decode() -> list[Any]:
        """Decode as the pipeline and the generator do with the last latents."""
        with torch.inference_mode():
            pixels = pipeline.vae.decode(latents / pipeline.vae.config.scaling_factor, return_dict=False)[0]
        values = pipeline.image_processor.postprocess(pixels, output_type="np")
        return [Image.fromarray((each * 255).round().astype(np.uint8)) for each in values]

    work = {
        "drawn": lambda: list(generator.generate(requests)),
        "drawn and traced": lambda: list(traced.generate(requests)),
        f"{k} times finished images decoded": lambda: [decode() for _ in range(k)],
        f"{k} times finished images embedded": lambda: [encoder.encode_images(images) for _ in range(k)],
        "estimates embedded": lambda: encoder.encode_images(seen),
    }
    for each in work.values():
        each()
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, each in work.items():
            started = process_time()
            each()
            times[name].append(process_time() - started)
    plain, with_trace, decoded, embedded, estimates = (np.array(own) for own in times.values())
    for name, own in times.items():
        print(f"{name}: {np.median(own):.3f} s, {min(own):.3f} to {max(own):.3f}", flush=True)
    ratio = (with_trace - plain + estimates) / (decoded + embedded)
    print(
        f"the trace added {np.median(ratio):.3f} of that, {ratio.min():.3f} to {ratio.max():.3f}; of the least times "
        f"{(with_trace.min() - plain.min() + estimates.min()) / (decoded.min() + embedded.min()):.3f}"
    )
    print(f"all of it {np.median((with_trace + estimates) / (plain + embedded / k)):.2f} times without a trace")
    plain_images = [result.image for result in generator.generate(requests)]
    same = all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(images, plain_images, strict=True))
    apart = max(int(np.abs(np.asarray(r.trace[-1].image, int) - np.asarray(r.image)).max()) for r in results)
    print(f"same images: {same}; the last estimate lies at most {apart} levels of 255 off the image", flush=True)


def audited(model: str, out: Path, concepts: tuple[str, ...] = ()) -> None:
    """Print a traced audit's agreement by step, and where leaning first shows."""
    options: Any = {"trace": True, "trace_steps": STEPS, "encoder": "reference", "resamples": 200, "report": False}
    started = process_time()
    drawn: Any = {"steps": 16, "guidance_scale": 1.0, "batch_size": 8, "device": "cpu"}  # as the model was planted
    run = cm.audit(model, suite(concepts), out, **drawn, **options)
    print(f"{len(run.samples)} images, {process_time() - started:.0f} processor seconds", flush=True)
    rows = run.scores[(run.scores.metric == "trace") & (run.scores.encoder == "mean")]
    for row in rows[rows.concept == ""].to_dict("records"):
        print(*(row[name] for name in ("component", "setting")), *(f"{row[x]:.2f}" for x in ("value", "low", "high")))
    parts = run.scores[(run.scores.metric == "mcas") & (run.scores.component == "image_part")]
    for name in ("onset", "half_way"):
        for row in rows[rows.component == name].to_dict("records"):
            print(*(row[x] for x in ("component", "concept", "group", "value", "low", "high", "flag", "reason")))
    for row in (*parts.to_dict("records"), *run.scores[run.scores.metric == "own_text"].to_dict("records")):
        ends = ("stimulus_low", "stimulus_high") if row["metric"] == "own_text" else ("low", "high")
        numbers = (f"{row[name]:+.3f}" for name in ("value", *ends))
        print(row["metric"], row["component"], row["concept"], *numbers, row["verdict"], row["side"])


if __name__ == "__main__":
    place, which = Path(sys.argv[1]), sys.argv[2:] or ["cost", "exit", "tilted"]
    if "cost" in which:
        cost()
    if "exit" in which:
        audited("reference", place / "exit", EARLY)
    if "tilted" in which:
        audited(tilt(place / "tilted-model"), place / "tilted", (*TILTED, *PLANTED))
