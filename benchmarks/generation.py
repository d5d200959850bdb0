"""How fast an audit draws, beside the bare denoising loop and beside the usual script.

    python benchmarks/generation.py [--model reference|sd-2.1|sdxl|DIRECTORY] [--images N] [--batch N] [--repeats N]
    python benchmarks/generation.py --model sd-2.1 --size 512 --waits 0.006 --steps 50 --images 40

The *audit* is its stage: prompts, noise, drawing, judging, PNG, Parquet. The *bare loop* is UNet, scheduler step and
VAE at the same batches, precision, steps and guidance, over embeddings and noise that lie on the device already; its
images are thrown away. The *usual script* calls the pipeline once a prompt for ten images and saves them as PNG.
They take turns in each repeat, and the ratios are of one repeat; the median is shown. ``sd-2.1`` and ``sdxl`` have
random weights, full-size on CUDA and small elsewhere.

With ``--waits`` the networks are stood in for by a wait, as an accelerator makes its host wait: so many seconds for
each image that the UNet sees in a step (two with guidance), and three times that for each that the VAE decodes to
noise, the slowest to compress. What is left of the ratio is the host's own work, which a device would wait for.
"""

import argparse
import copy
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from clinometer._torch import torch

# isort: split
from diffusers.models.autoencoders.vae import DecoderOutput
from diffusers.models.unets.unet_2d_condition import UNet2DConditionOutput

from clinometer.models import load_generator
from clinometer.runs import NoProgress, create_run, generate
from clinometer.runs.plan import build_plan
from clinometer.runs.record import new_record
from clinometer.suites import load_suite

AT_ONCE = 10


def main() -> None:
    """Time the three in turn and print their rates and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="reference")
    parser.add_argument("--images", type=int, default=120, help="a multiple of ten")
    parser.add_argument("--batch", type=int, help="images a call; by default what the audit finds")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--size", type=int, help="height and width in pixels")
    parser.add_argument("--waits", type=float, help="seconds of an accelerator that is only waited for")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        generator = load_generator(
            model_of(options.model, folder, device),
            batch_size=options.batch,
            steps=options.steps,
            height=options.size,
            width=options.size,
            device=device,
        )
        if options.waits is not None:
            stand_in(generator, options.waits)
        suite = load_suite("reference").with_options(images=AT_ONCE)
        prompts = list(dict.fromkeys(question.prompt for question in suite.prompt_specs()))[: options.images // AT_ONCE]
        generator.fit_batch_size(max(prompts, key=len))
        sides = {
            "the audit": lambda turn: audit(generator, suite, AT_ONCE * len(prompts), folder / f"run-{turn}"),
            "the bare loop": lambda turn: bare(generator, prompts),
            "the usual script": lambda turn: script(generator, prompts, folder / f"script-{turn}"),
        }
        turns: dict[str, list[Turn]] = {name: [] for name in sides}
        for turn in range(options.repeats + 1):  # the first warms up
            for name, side in sides.items():
                taken = measured(side, turn)
                if turn:
                    turns[name].append(taken)
        report(generator, device, AT_ONCE * len(prompts), turns)


def model_of(name: str, folder: Path, device: str) -> str:
    """The reference model and directories as they are; the others built with random weights."""
    if name not in ("sd-2.1", "sdxl"):
        return name
    import pipelines

    return str(pipelines.save(name, folder, full=device == "cuda", device=device))


def stand_in(generator, seconds: float) -> None:
    """Let the pipeline wait where a device would work: Python's lock and both cores are free meanwhile."""
    unet, vae, settings = generator.pipeline.unet, generator.pipeline.vae, generator.card.settings
    noise = torch.rand(3, settings["height"], settings["width"], generator=torch.Generator().manual_seed(0)) * 2 - 1

    def predict(sample, *_, return_dict=True, **__):
        time.sleep(seconds * len(sample))
        return UNet2DConditionOutput(sample) if return_dict else (sample,)

    def decode(latents, *_, return_dict=True, **__):
        time.sleep(3 * seconds * len(latents))
        pixels = noise.expand(len(latents), -1, -1, -1)
        return DecoderOutput(pixels) if return_dict else (pixels,)

    unet.forward, vae.decode = predict, decode


class Turn(NamedTuple):
    """What one turn of one side took: seconds, processor seconds of all threads, peak of CUDA memory in GiB."""

    seconds: float
    processor: float
    memory: float


def measured(side, turn: int) -> Turn:
    """Let one side have its turn."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    began, spent = time.perf_counter(), time.process_time()
    side(turn)
    synchronise()
    peak = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0
    return Turn(time.perf_counter() - began, time.process_time() - spent, peak)


def synchronise() -> None:
    """Wait until the device is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def audit(generator, suite, images: int, out: Path) -> None:
    """The stage of an audit that draws, with its parts as an audit cuts them."""
    plan = build_plan(
        suite.prompt_specs(),
        seed=0,
        model_fingerprint=generator.card.fingerprint,
        part_size=max(generator.batch_size, 8),
    )
    record = new_record(suite, generator.card, seed=0, origin="generated", batch_size=generator.batch_size)
    generate(create_run(out, record, plan[:images]), generator, NoProgress())


@torch.inference_mode()
def bare(generator, prompts: list[str]) -> None:
    """UNet, scheduler and VAE in the audit's batches, and nothing else."""
    pipeline, settings = generator.pipeline, generator.card.settings
    guidance = settings["guidance_scale"]
    asked = [prompt for prompt in prompts for _ in range(AT_ONCE)]
    given = conditions(generator, asked)
    for start in range(0, len(asked), generator.batch_size):
        rows = slice(start, start + generator.batch_size)
        scheduler = copy.deepcopy(pipeline.scheduler)
        scheduler.set_timesteps(settings["steps"], device=pipeline.unet.device)
        latents = given["latents"][rows] * scheduler.init_noise_sigma
        text = joined(given, "prompt_embeds", rows, guidance)
        added = None
        if "pooled_prompt_embeds" in given:
            pooled = joined(given, "pooled_prompt_embeds", rows, guidance)
            size = (settings["height"], settings["width"])
            ids = torch.tensor([[*size, 0, 0, *size]], dtype=text.dtype, device=text.device)
            added = {"text_embeds": pooled, "time_ids": ids.expand(len(pooled), -1)}
        for timestep in scheduler.timesteps:
            both = torch.cat([latents] * 2) if guidance > 1 else latents
            both = scheduler.scale_model_input(both, timestep)
            noise = pipeline.unet(both, timestep, encoder_hidden_states=text, added_cond_kwargs=added).sample
            if guidance > 1:
                without, towards = noise.chunk(2)
                noise = without + guidance * (towards - without)
            latents = scheduler.step(noise, timestep, latents).prev_sample
        decode(pipeline.vae, latents)
        synchronise()


def conditions(generator, prompts: list[str]) -> dict[str, torch.Tensor]:
    """Embeddings and noise of all images, on the device."""
    given = generator._conditioning(prompts, list(range(len(prompts))))
    return {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}


def joined(given: dict[str, torch.Tensor], name: str, rows: slice, guidance: float) -> torch.Tensor:
    """Rows of the prompts' embeddings, after those of the negative prompt where there is guidance."""
    return torch.cat([given[f"negative_{name}"][rows], given[name][rows]]) if guidance > 1 else given[name][rows]


def decode(vae, latents: torch.Tensor) -> torch.Tensor:
    """Latents to pixels, in float32 where the VAE needs it, as its pipeline does."""
    upcast = vae.dtype == torch.float16 and vae.config.force_upcast
    if upcast:
        vae.to(torch.float32)
    pixels = vae.decode(latents.to(vae.dtype) / vae.config.scaling_factor).sample
    if upcast:
        vae.to(torch.float16)
    return pixels


def script(generator, prompts: list[str], out: Path) -> None:
    """What most audits do: a call for each prompt, ten images a call, each saved."""
    settings = generator.card.settings
    out.mkdir()
    for order, prompt in enumerate(prompts):
        drawn = generator.pipeline(
            prompt,
            num_images_per_prompt=AT_ONCE,
            num_inference_steps=settings["steps"],
            guidance_scale=settings["guidance_scale"],
            height=settings["height"],
            width=settings["width"],
        )
        for number, image in enumerate(drawn.images):
            image.save(out / f"{order}-{number}.png")


def report(generator, device: str, images: int, turns: dict[str, list[Turn]]) -> None:
    """Print rates, peaks and the two ratios."""
    settings = generator.card.settings
    where = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(
        f"{generator.card.name}, {settings['height']} x {settings['width']}, {settings['steps']} steps, guidance "
        f"{settings['guidance_scale']}, {settings['dtype']}, batches of {generator.batch_size}, {images} images, "
        + where
    )
    print(f"{'':<20}{'images/s':>10}{'CPU s/image':>13}{'CUDA GiB':>10}")
    for name, taken in turns.items():
        wall, processor = (statistics.median(each[at] for each in taken) / images for at in (0, 1))
        print(f"{name:<20}{1 / wall:>10.2f}{processor:>13.3f}{max(each.memory for each in taken):>10.2f}")
    own, bare, usual = turns.values()
    overhead = [one.seconds / other.seconds - 1 for one, other in zip(own, bare, strict=True)]
    processor = [one.processor / other.processor - 1 for one, other in zip(own, bare, strict=True)]
    times = [one.seconds / other.seconds for one, other in zip(usual, own, strict=True)]
    print(f"overhead over the bare loop {spread(overhead, '.1%')}   (at most 8 % wanted on a CPU, 3 % on a GPU)")
    print(f"the same in processor time  {spread(processor, '.1%')}   (other work on the machine hardly enters it)")
    print(f"times the usual script      {spread(times, '.2f')}   (at least 1.5 wanted on a GPU)")
    print(f"peak memory of the process  {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


def spread(values: list[float], form: str) -> str:
    """The median, and the range where there are several."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


if __name__ == "__main__":
    main()
