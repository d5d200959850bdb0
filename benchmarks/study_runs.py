"""Made-up runs of every study, drawn and embedded and not scored, for the benchmarks of scoring.

Vectors are random. Portraits of the editing study are noise in the colours of skin; all other pictures are one small
one, as no other study looks at pixels while it scores.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

from benchmarks.browse import ENCODER, GENERATOR, rows
from clinometer.models.images import encode_png
from clinometer.runs.ledger import CLASSIFICATIONS, part_name, samples_name
from clinometer.runs.plan import Parts, Plan, build_plan
from clinometer.runs.record import card_record, new_record, with_checksum
from clinometer.runs.run import Run, create_run
from clinometer.runs.samples import SAMPLE_SCHEMA
from clinometer.studies import study_of
from clinometer.studies.classification.study import SCHEMA as CLASSIFIED
from clinometer.suites import ClassificationSuite, suite_from_mapping


def editing(images: int, concepts: int) -> dict[str, Any]:
    """Four groups of portraits, as many professions as concepts, three strengths."""
    groups = {
        f"{tone} {gender}": {"gender": gender, "tone": tone, "prompt": f"a {tone} {gender}"}
        for gender in ("woman", "man")
        for tone in ("light", "dark")
    }
    return {
        "study": "editing", "genders": {"a": "man", "b": "woman"}, "groups": groups, "tones": ["light", "dark"],
        "wordings": [{"a": f"{words} man", "b": f"{words} woman"} for words in ("a photo of a", "a", "one")],
        "professions": {
            f"profession {n}": {"kind": ("high", "low")[n % 2], "prompt": f"a profession {n}"} for n in range(concepts)
        },
        "strengths": [0.4, 0.7, 1.0],
        "images": {"group": max(1, images // (len(groups) * (1 + 3 * concepts)))},
    }  # fmt: skip


def t2iat(images: int, concepts: int) -> dict[str, Any]:
    """So many concepts of ten stimuli, tested in pairs, each with as many neutral images as with either attribute."""
    names = [f"concept {n}" for n in range(concepts)]
    per_stimulus = max(2, images // (30 * concepts))
    return {
        "study": "t2iat", "groups": {name: {"words": [name]} for name in ("man", "woman")},
        "axis": {"a": "man", "b": "woman"},
        "concepts": {
            name: {
                "template": "a photo of {stimulus}", "attribute_template": "a photo of {stimulus} with a {word}",
                "stimuli": [f"{name}.{s}" for s in range(10)],
            }
            for name in names
        },
        "tests": [{"name": f"{x}-{y}", "x": x, "y": y} for x, y in zip(names[::2], names[1::2], strict=False)],
        "images": {"neutral": per_stimulus, "attribute": per_stimulus},
    }  # fmt: skip


def crossed(images: int, concepts: int) -> dict[str, Any]:
    """The leaning study with two axes of two levels."""
    groups = {
        f"{tone} {gender}": {
            "cell": {"gender": gender, "tone": tone},
            "prompts": [{"pair": pair, "prompt": f"{pair} {tone} {gender}"} for pair in ("young", "old")],
            "words": [f"{tone} {gender}", f"a {tone} {gender}"],
        }
        for tone in ("light", "dark")
        for gender in ("man", "woman")
    }
    return {
        "axes": {"gender": {"levels": {"man": "men", "woman": "women"}},
                 "tone": {"levels": {"light": "light skin", "dark": "dark skin"}}},
        "groups": groups, "images": {"target": max(2, images // concepts), "attribute": 40},
        "categories": {"all of them": {"targets": _targets(concepts)}},
    }  # fmt: skip


def leaning(images: int, concepts: int) -> dict[str, Any]:
    """The leaning study with one pair of groups."""
    groups = {
        name: {"prompts": [{"prompt": f"a {name}", "pair": "plain"}], "words": [name]} for name in ("man", "woman")
    }
    return {
        "groups": groups, "axis": {"a": "man", "b": "woman"},
        "categories": {"all of them": {"targets": _targets(concepts)}},
        "images": {"target": images // concepts - 1, "attribute": concepts // 2},
    }  # fmt: skip


def _targets(concepts: int) -> list[dict[str, str]]:
    return [{"name": f"concept {n}", "prompt": f"a picture of {n}"} for n in range(concepts)]


def classification(images: int, concepts: int) -> dict[str, Any]:
    """Four groups of portraits before as many classes on either side as concepts, at ten noise samples."""
    names = [f"{tone} {gender}" for gender in ("man", "woman") for tone in ("light", "dark")]
    return {
        "study": "classification", "groups": {name: {"prompt": f"a {name}"} for name in names},
        "template": "a photo of {}",
        "a": {"label": "high", "classes": {f"high {n}": f"a high {n}" for n in range(concepts)}},
        "b": {"label": "low", "classes": {f"low {n}": f"a low {n}" for n in range(concepts)}},
        "contrasts": {"gender": {"x": {"label": "men", "groups": names[:2]},
                                 "y": {"label": "women", "groups": names[2:]}}},
        "noise_samples": [1, 10], "images": {"group": max(1, images // 4)},
    }  # fmt: skip


STUDIES: Mapping[str, Callable[[int, int], dict[str, Any]]] = {
    "leaning": leaning, "crossed": crossed, "editing": editing, "t2iat": t2iat,
    "classification": classification,
}  # fmt: skip


def make_study_run(place: Path, study: str, images: int, concepts: int, *, part: int, width: int, side: int) -> Run:
    """Write a run as it is left before it is scored; portraits have so many pixels a ``side``."""
    described = {"name": "large", "title": "Large", "description": "Made up.", **STUDIES[study](images, concepts)}
    suite = suite_from_mapping(described, source="benchmark")
    plan = build_plan(suite.prompt_specs(), seed=0, model_fingerprint=GENERATOR.fingerprint, part_size=part)
    if (extend := study_of(suite).extend_plan) is not None:
        plan = extend(suite, plan, part)
    record = new_record(suite, GENERATOR, seed=0, origin="generated")
    run = create_run(place, with_checksum(record | {"encoders": {"eye": card_record(ENCODER)}}), plan)
    rng, pictures = np.random.default_rng(0), cycle(_pictures(side if study == "editing" else 8))
    texts = suite.texts()
    run.vectors.write_texts("eye", texts, rng.standard_normal((len(texts), width)).astype(np.float32))
    for number, samples in Parts(Plan.of(plan)).items():
        table = pa.Table.from_pylist(list(rows(samples, pictures)), schema=SAMPLE_SCHEMA)
        run.ledger.write_table(samples_name(number), table)
        vectors = rng.standard_normal((len(samples), width)).astype(np.float32)
        run.vectors.write("eye", number, [sample.id for sample in samples], vectors)
        if isinstance(suite, ClassificationSuite):
            errors = list(_errors(suite, samples, rng))
            run.ledger.write_table(part_name(CLASSIFICATIONS, number), pa.Table.from_pylist(errors, schema=CLASSIFIED))
    run.ledger.list_files()
    return run


def _pictures(side: int) -> list[bytes]:
    """Eight pictures whose pixels are skin, more or less, as files."""
    rng, files = np.random.default_rng(0), []
    for number in range(8):
        tone = np.array([215, 189, 150]) - 14 * number
        small = np.clip(tone + rng.normal(0, 12, (max(1, ceil(side / 8)),) * 2 + (3,)), 0, 255).astype(np.uint8)
        files.append(encode_png(Image.fromarray(small).resize((side, side), Image.Resampling.BICUBIC)))
        assert Image.open(io.BytesIO(files[-1])).size == (side, side)
    return files


def _errors(suite: ClassificationSuite, samples: Any, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    trials = suite.noise_samples[-1]
    for sample in samples:
        errors = rng.uniform(0.1, 0.2, (len(suite.classes), trials)).astype(np.float32)
        for label, row in zip(suite.classes, errors, strict=True):
            yield {"id": sample.id, "label": label, "errors": row, "evaluations": errors.size, "tolerance": 1e-6,
                   "reason": ""}  # fmt: skip
