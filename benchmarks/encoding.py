"""How fast a run's images are embedded, beside the encoder's bare throughput.

    python benchmarks/encoding.py [--encoder reference|ARCHITECTURE] [--images N] [--side PIXELS] [--threads N]

The *stage* reads Parquet, decodes PNG, resizes, normalises, embeds, and writes the vectors. *Bare* is the model alone,
over batches of the same size that lie on its device already. They take turns; the ratio is of one repeat, and the
median is shown. The images are smooth with a little grain. An architecture is open_clip's (``ViT-B-32``, ``ViT-L-14``),
with random weights.

Where the encoder fills all cores, decoding takes its share of them: the last lines say what is left at best. With
``--threads 1`` the encoder has one core, in both, and leaves the others to the threads that decode, as an accelerator
would: this shows what of decoding is not overlapped.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
from PIL import Image

from clinometer._cores import available_cores
from clinometer._torch import torch
from clinometer.models import load_encoder
from clinometer.models.images import decode_stored, encode_png, sha256
from clinometer.models.protocols import Card
from clinometer.runs import NoProgress, create_run, encode
from clinometer.runs.ledger import vectors_name
from clinometer.runs.plan import build_plan
from clinometer.runs.record import new_record
from clinometer.runs.run import Run
from clinometer.runs.samples import SAMPLE_FIELDS
from clinometer.suites import load_suite

BATCH = 32


def main() -> None:
    """Time both in turn and print rates and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="reference", help="or an architecture of open_clip")
    parser.add_argument("--images", type=int, default=320, help=f"a multiple of {BATCH}")
    parser.add_argument("--side", type=int, help="of the images, in pixels: 64 for the reference CLIP, 512 for others")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="cores of the encoder")
    options = parser.parse_args()
    options.side = options.side or (64 if options.encoder == "reference" else 512)
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        encoder = load_encoder(encoder_of(options.encoder, folder), batch_size=BATCH)
        run = painted(folder / "run", options.images, options.side)
        encode(run, encoder, NoProgress())  # warms up, and embeds the texts
        calls, preparing = prepared(run, encoder)
        stages, bares = [], []
        for _ in range(options.repeats):
            stages.append(measured(lambda: stage(run, encoder)))
            bares.append(measured(lambda: bare(calls)))
        report(encoder, options, preparing, stages, bares)


def encoder_of(name: str, folder: Path) -> str:
    """The reference CLIP as it is; an architecture of open_clip with random weights, saved."""
    if name == "reference":
        return name
    import open_clip
    from safetensors.torch import save_file

    torch.manual_seed(0)
    file = folder / "random.safetensors"
    save_file(open_clip.create_model(name).state_dict(), file)
    return f"{name}/{file}"


def painted(out: Path, count: int, side: int) -> Run:
    """A run whose images are painted: colours that change slowly, with grain as a photograph has."""
    suite = load_suite("reference")
    suite = suite.with_options(images=-(-count // len(suite.targets)))  # attribute images come on top
    card = Card(kind="generator", name="painted", family="benchmark")
    plan = build_plan(suite.prompt_specs(), seed=0, model_fingerprint=card.fingerprint, part_size=BATCH)[:count]
    run = create_run(out, new_record(suite, card, seed=0, origin="generated"), plan)
    rng = np.random.default_rng(0)
    for part, samples in run.parts.items():
        rows = []
        for sample in samples:
            coarse = Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8)).resize((side, side), Image.BICUBIC)
            grain = rng.integers(0, 4, (side, side, 3), np.uint8)
            content = encode_png(Image.fromarray(np.asarray(coarse) // 2 + grain))
            image = {"bytes": content, "path": f"{sample.id}.png"}
            rows.append(
                {name: getattr(sample, name, None) for name in SAMPLE_FIELDS}
                | {"status": "ok", "image": image, "sha256": sha256(content), "seconds": 0.0}
            )
        run.drawn.write(part, rows)
    return run


def prepared(run: Run, encoder) -> tuple[list[Callable[[], torch.Tensor]], float]:
    """A call of the model for each batch, its input on the device; and the processor seconds of decoding them all."""
    contents = [[row["image"]["bytes"] for row in run.drawn.read(part)] for part in run.parts]
    began = time.thread_time()
    batches = [encoder.prepare_images([decode_stored(each) for each in part]) for part in contents]
    taken = time.thread_time() - began
    return [call_of(encoder, batch) for batch in batches], taken


def call_of(encoder, batch: list) -> Callable[[], torch.Tensor]:
    """The forward pass of open_clip's model or of a transformers CLIP over one batch, as the encoder calls it."""
    name = "encode_image" if hasattr(encoder.model, "encode_image") else "get_image_features"
    forward = getattr(encoder.model, name)
    with patch.object(encoder.model, name, wraps=forward) as called:
        encoder.encode_prepared(batch)
    return partial(forward, *called.call_args.args, **called.call_args.kwargs)


def stage(run: Run, encoder) -> None:
    """Embed all images again."""
    for part in run.parts:
        run.directory.remove(vectors_name(encoder.card.name, part))
    encode(run, encoder, NoProgress())


@torch.inference_mode()
def bare(calls: list[Callable[[], torch.Tensor]]) -> None:
    """The model alone."""
    for call in calls:
        call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def measured(side: Callable[[], None]) -> np.ndarray:
    """What one side takes: seconds, and processor seconds of all threads."""
    began = time.perf_counter(), time.process_time()
    side()
    return np.array([time.perf_counter(), time.process_time()]) - began


def report(encoder, options, preparing: float, stages: list[np.ndarray], bares: list[np.ndarray]) -> None:
    """Print rates, the shares, and where the processor limits them."""
    threads, side = torch.get_num_threads(), options.side
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {threads} threads"
    print(f"{encoder.card.name}, {options.images} images of {side} x {side}, batches of {BATCH}, {where}")
    for name, taken in (("the stage", stages), ("the bare encoder", bares)):
        wall, processor = np.median(taken, axis=0) / options.images
        print(f"{name:<20}{1 / wall:>9.1f} images/s{1e3 * processor:>10.2f} processor ms an image")
    shares = np.array(bares) / np.array(stages)
    for name, values in zip(("bare throughput", "processor time"), shares.T, strict=True):
        print(f"share of the {name:<17}{np.median(values):>7.1%} ({values.min():.1%} to {values.max():.1%})")
    print("(of the throughput at least 95 % wanted; other work on the machine hardly enters processor time)")
    print(f"decoding and resizing: {1e3 * preparing / options.images:.2f} processor ms an image", end="")
    alone = np.median(bares, axis=0)[1]
    if not torch.cuda.is_available() and options.threads >= available_cores():
        print(f"; where the encoder fills all cores, {alone / (alone + preparing):.1%} at best", end="")
    print(f"\npeak memory of the process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")
    if torch.cuda.is_available():
        print(f"peak memory on CUDA {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
