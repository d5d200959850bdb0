"""What a trace costs and shows on the reference model: ``python -m benchmarks.tracing FOLDER [cost planted tilted]``.

Three things are printed: processor seconds of drawing with and without a trace, and of the parts; the agreement of
each step's verdicts with those of the finished images; and where leaning first shows in the model as it is, whose
network was planted, and in one whose text encoder was tilted: the embeddings of the concepts' words moved towards
"man".
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import clinometer as cm
from clinometer.models import load_encoder, load_generator, reference
from clinometer.models.protocols import GenerationRequest
from clinometer.suites import load_suite, suite_from_mapping

CONCEPTS = ("firefighter", "mechanic", "pilot", "teacher", "singer", "cook")
IMAGES, ATTRIBUTES, STEPS = 10, 4, "1,2,3,4,6,8,10,12,14,16"


def suite(concepts: tuple[str, ...] = CONCEPTS) -> Any:
    """Return a part of the reference suite: two groups, some concepts, few images."""
    whole = load_suite("reference").model_dump(mode="json")
    del whole["groups"]["nonbinary"]
    for group in whole["groups"].values():
        group["prompts"] = group["prompts"][:2]
    targets = [t for category in whole["categories"].values() for t in category["targets"] if t["name"] in concepts]
    whole["axis"] = {name: whole["axis"][name] for name in ("a", "b")}
    whole |= {"name": "traced", "categories": {"occupation": {"label": "Occupations", "targets": targets}}}
    whole["images"] = {"target": IMAGES, "attribute": ATTRIBUTES}
    return suite_from_mapping(whole, source="traced")


def tilted(folder: Path, strength: float = 1.0) -> str:
    """Save the reference model with its text encoder tilted: words of the concepts moved from "woman" to "man"."""
    from safetensors.torch import load_file, save_file
    from transformers import CLIPTokenizer

    shutil.copytree(reference.pipeline_path(), folder)
    tokenizer = CLIPTokenizer.from_pretrained(folder / "tokenizer")
    (file,) = (folder / "text_encoder").glob("*.safetensors")
    weights = load_file(file)
    (name,) = (key for key in weights if key.endswith("token_embedding.weight"))
    table = weights[name]

    def tokens(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False).input_ids)

    man, woman = (table[tokens(word)].float().mean(dim=0) for word in ("man", "woman"))
    kept = {token for text in ("an image of a", "of", "an") for token in tokens(text)}
    for token in {token for concept in CONCEPTS for token in tokens(concept)} - kept:
        table[token] += (strength * (man - woman)).to(table.dtype)
    save_file(weights, file)
    return str(folder)


def cost() -> None:
    """Print processor seconds of a batch drawn and embedded, with six steps traced and without."""
    generator: Any = load_generator("reference", device="cpu", batch_size=8)
    encoder = load_encoder("reference", device="cpu")
    requests = [GenerationRequest(str(seed), "an image of a teacher", seed) for seed in range(8)]
    traced = generator.traced(6)
    for warm in (generator, traced):
        list(warm.generate(requests))

    def seconds(work: Any) -> tuple[float, Any]:
        started = process_time()
        done = work()
        return process_time() - started, done

    plain = min(seconds(lambda: list(generator.generate(requests)))[0] for _ in range(2))
    times = [seconds(lambda: list(traced.generate(requests))) for _ in range(2)]
    with_trace, results = min(t for t, _ in times), times[0][1]
    images = [result.image for result in results]
    seen = [estimate.image for result in results for estimate in result.trace]
    embed = min(seconds(lambda: encoder.encode_images(images))[0] for _ in range(2))
    embed_seen = min(seconds(lambda: encoder.encode_images(seen))[0] for _ in range(2))
    plain_images = [result.image for result in generator.generate(requests)]
    same = all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(images, plain_images, strict=True))
    apart = max(int(np.abs(np.asarray(r.trace[-1].image, int) - np.asarray(r.image)).max()) for r in results)
    print(f"8 images: drawn {plain:.2f} s, drawn and six steps decoded {with_trace:.2f} s", flush=True)
    print(f"embedded: images {embed:.2f} s, estimates {embed_seen:.2f} s ({embed_seen / embed / 6:.2f} of six times)")
    print(f"ratio of all {(with_trace + embed + embed_seen) / (plain + embed):.2f}; same images: {same}")
    print(f"the last step's estimate lies at most {apart} levels of 255 off the image", flush=True)


def traced(model: str, out: Path) -> None:
    """Print a traced audit's agreement by step, and where leaning first shows."""
    run = cm.audit(model, suite(), out, trace=True, trace_steps=STEPS, resamples=200, report=False, device="cpu")
    rows = run.scores[run.scores.metric == "trace"]
    for row in rows[rows.concept == ""].to_dict("records"):
        print(row["component"], row["setting"], round(row["value"], 2), flush=True)
    for row in rows[rows.component.isin(["onset", "half_way"])].to_dict("records"):
        print(*(row[name] for name in ("component", "concept", "group", "value", "low", "high", "flag", "reason")))
    for row in run.scores[run.scores.metric == "own_text"].to_dict("records"):
        print("text", *(row[name] for name in ("concept", "value", "stimulus_low", "stimulus_high")))


if __name__ == "__main__":
    place, which = Path(sys.argv[1]), sys.argv[2:] or ["cost", "planted", "tilted"]
    if "cost" in which:
        cost()
    if "planted" in which:
        traced("reference", place / "planted")
    if "tilted" in which:
        traced(tilted(place / "tilted-model"), place / "tilted")
