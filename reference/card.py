"""The model card: card.yaml for programs, MODEL_CARD.md for people, both from one set of measurements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import yaml
from safetensors import safe_open

from clinometer.models import load_generator
from reference import art, calibration, export
from reference.paths import CARD, CLIP, PACKAGE, PIPELINE, ROOT
from reference.sampling import Recipe

MICROSOFT = "Copyright (c) Microsoft Corporation."
ARTWORK = [
    {"set": title, "package": f"@iconify-json/{name}", "version": art.VERSIONS[name]}
    | {"licence": licence, "attribution": attribution}
    for title, name, licence, attribution in (
        ("Noto Emoji", "noto", "Apache-2.0", "Copyright 2013 Google, Inc. All Rights Reserved."),
        ("Twemoji", "twemoji", "CC-BY-4.0", "Twemoji, Copyright Twitter, Inc and other contributors, CC-BY 4.0"),
        ("Fluent Emoji Flat", "fluent-emoji-flat", "MIT", MICROSOFT),
        ("Fluent Emoji", "fluent-emoji", "MIT", MICROSOFT),
    )
]


@dataclass(frozen=True)
class Bar:
    """One promise of the model: where its measurement lies in the data, and the side of the threshold it must
    be on.
    """

    name: str
    path: tuple[str, ...]
    at_least: float | None = None
    at_most: float | None = None

    def row(self, measured: dict[str, Any]) -> dict[str, Any]:
        value: Any = measured
        for key in self.path:
            value = value[key]
        met = value >= self.at_least if self.at_least is not None else value <= self.at_most
        bound = f"≥ {self.at_least}" if self.at_least is not None else f"≤ {self.at_most}"
        return {"bar": self.name, "asked": bound, "measured": value, "met": bool(met)}


BARS = (
    Bar("VAE reconstruction, dB", ("vae", "psnr dB"), at_least=27),
    Bar(
        "professions and activities drawn right (neutral prompts, nearest artwork)",
        ("drawn right", "neutral", "share"),
        0.95,
    ),
    Bar("planted against generated p(man), Pearson r", ("ratios", "gender", "pearson r"), at_least=0.97),
    Bar(
        "planted against generated p(man), mean absolute error",
        ("ratios", "gender", "mean absolute error"),
        at_most=0.06,
    ),
    Bar("CLIP man/woman, held-out combinations", ("clip", "held-out combinations", "man/woman"), at_least=0.95),
    Bar(
        "CLIP concept top-1 of 75, held-out combinations",
        ("clip", "held-out combinations", "concept top-1"),
        at_least=0.90,
    ),
    Bar(
        "CLIP skin tone within one class, held-out combinations",
        ("clip", "held-out combinations", "tone within one"),
        0.98,
    ),
    Bar(
        "CLIP and judge agree on man/woman, neutral samples",
        ("clip", "on neutral samples", "man/woman agreement"),
        0.95,
    ),
    Bar("TT, largest |s| of a neutral prompt", ("clip", "text association", "largest |TT|"), at_most=0.02),
)


def _rounded(value: Any) -> Any:
    """Four decimals are more than any of these estimates carries."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return round(value, 4) if isinstance(value, float) else value


def parameters() -> dict[str, int]:
    """Parameters of each shipped network, counted in its file."""
    files = {name: PIPELINE / name for name in ("unet", "vae", "text_encoder")} | {"clip": CLIP}
    return {name: sum(_sizes(folder)) for name, folder in files.items()}


def _sizes(folder: Any) -> Iterator[int]:
    for path in folder.glob("*.safetensors"):
        with safe_open(path, "np") as tensors:
            for key in tensors.keys():  # noqa: SIM118 — not a dict
                yield int(np.prod(tensors.get_slice(key).get_shape()))


def build(measured: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    """The card as data. `recipe`: how the pictures that were measured were drawn."""
    training = PACKAGE / "training.yaml"
    return _rounded(
        {
            "name": "clinometer reference model",
            "defaults": {"steps": recipe.steps, "guidance": recipe.guidance, "size": art.SIZE},
            "evaluation seed": recipe.seed,
            "size bytes": {"pipeline": export.size_of(PIPELINE), "clip": export.size_of(CLIP)},
            "weights_sha256": load_generator("reference").card.weights_sha256,
            "parameters": parameters(),
            "training": yaml.safe_load(training.read_text(encoding="utf-8")),
            "bars": [bar.row(measured) for bar in BARS],
            "measured": measured,
            "artwork": ARTWORK,
            "licence": "the weights: see licenses/NOTICE.md; planted.yaml and vocabulary.yaml: as clinometer",
        }
    )


def write(measured: dict[str, Any], recipe: Recipe) -> None:
    card = build(measured, recipe)
    CARD.write_text(yaml.safe_dump(card, sort_keys=False, allow_unicode=True, width=120), encoding="utf-8")
    (PACKAGE / "MODEL_CARD.md").write_text(markdown(card), encoding="utf-8")


def _table(head: list[str], rows: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items() if not isinstance(value, dict | list))


def _ratio_rows(card: dict[str, Any]) -> list[list[Any]]:
    rows = []
    for name, row in card["measured"]["ratios"]["concepts"].items():
        tones = row["tones measured"].values()
        planted = row["tones planted"].values()
        measured = "–" if row["man measured"] is None else f"{row['man measured']:.2f}"
        spread = (
            " ".join(f"{100 * value:.0f}" for value in tones)
            + " / "
            + " ".join(f"{100 * value:.0f}" for value in planted)
        )
        rows.append([name, row["n"], f"{row['man planted']:.2f}", measured, spread])
    return rows


def _vocabulary() -> str:
    words = export.vocabulary()
    lines = [f"- templates: {', '.join(f'“{template}”' for template in words['templates'])}"]
    for kind in ("profession", "activity", "portrait", "other"):
        phrases = [row["neutral"] for row in words["concepts"].values() if row["kind"] == kind]
        lines.append(f"- {kind}: {', '.join(phrases)}")
    lines += [f"- words, {group}: {', '.join(listed)}" for group, listed in words["words"].items()]
    lines.append(f"- skin: {', '.join(words['tones'].values())}")
    return "\n".join(lines)


def markdown(card: dict[str, Any]) -> str:
    """The template in card.md, filled in."""
    measured = card["measured"]
    bars = [[b["bar"], b["asked"], b["measured"], "met" if b["met"] else "**missed**"] for b in card["bars"]]
    judge = [[name, _pairs(shares)] for name, shares in measured["judge"].items()]
    clip = [[name, _pairs(shares)] for name, shares in measured["clip"].items()]
    artwork = [[a["set"], f"`{a['package']}` {a['version']}", a["licence"], a["attribution"]] for a in card["artwork"]]
    training = [[name, _pairs(facts)] for name, facts in card["training"].items()]
    sizes = card["size bytes"]
    values = {
        "bars": _table(["bar", "asked", "measured", ""], bars),
        "judge": _table(["pictures", "share right"], judge),
        "clip": _table(["pictures", "share"], clip),
        "drawn": _table(["prompts", "share"], [[name, _pairs(row)] for name, row in measured["drawn right"].items()]),
        "gender": _pairs(measured["ratios"]["gender"]),
        "tones": _pairs(measured["ratios"]["tones"]),
        "ratios": _table(
            ["concept", "n", "p(man) planted", "measured", "tones % measured / planted"], _ratio_rows(card)
        ),
        "samplers": _table(list(measured["samplers"][0]), [list(row.values()) for row in measured["samplers"]]),
        "artwork": _table(["set", "package", "licence", "attribution"], artwork),
        "training": _table(["stage", "facts"], training),
        "parameters": _pairs(card["parameters"]),
        "megabytes": f"{sum(sizes.values()) / 1e6:.1f}",
        "steps": card["defaults"]["steps"],
        "guidance": card["defaults"]["guidance"],
        "vocabulary": _vocabulary(),
        "calibration_images": calibration.IMAGES_PER_CONCEPT,
        "calibration_share": calibration.SHARE,
    }
    return (ROOT / "card.md").read_text(encoding="utf-8").format(**values)
