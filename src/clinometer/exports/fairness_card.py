"""``fairness``: a Fairness Card (Vladimirova et al., ICML 2026): ``core.yaml`` 0.1 and our ``image.yaml``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import Any, Final

from clinometer.errors import InvalidInputError
from clinometer.exports.model_cards import REPOSITORY, CardDetails, card_input, is_served, judged
from clinometer.metrics.verdict import LEVEL
from clinometer.report import wording
from clinometer.report.model_card import CardInput, limits_of, one_line
from clinometer.report.sections import flat
from clinometer.report.verdicts import Verdicts
from clinometer.report.view import Row
from clinometer.runs import Run
from clinometer.suites import PromptSpec, Suite

CARD: Final = "0.1.0"
"""The version of Fairness Cards that these are written by.

The core is ``schemas/core.yaml`` of github.com/mariiavladimirova/fairness-cards, commit 2a1dcc3; the extension for
images is our ``docs/schemas/image.yaml``.
"""

_RULES: Final = [
    {
        "rule": f"A verdict names a side where the 95 % interval excludes 0 and q ≤ {LEVEL:g}; for pictures, where "
        "the same is true when measured from the middle of the groups' own pictures.",
        "rationale": "q is Benjamini and Hochberg's, over all verdicts of a quantity.",
    },
    {
        "rule": "A verdict is 'balanced' only where two one-sided tests show a score to be within the margin.",
        "rationale": "Finding no difference is not evidence that there is none; that case is 'undecided'.",
    },
]


def fairness_card(run: Run, details: CardDetails) -> dict[str, Any]:
    """Return a Fairness Card: the core, and what an image model's audit leaves open otherwise.

    Only the intended use is typed by hand.

    Raises
    ------
    InvalidInputError
        The intended use is not given: nothing of a run tells it.
    """
    for name in ("in_scope", "out_of_scope"):
        if not getattr(details, name):
            raise InvalidInputError.missing(
                "nothing is given; a run does not say what its conclusions are for", field=name
            )
    record, shown = run.record, card_input(run)
    verdicts_and_rows = judged(shown)
    refusals = [row for row in shown.view.scores if row.metric == "refusal"]
    statuses = {str(name): int(n) for name, n in run.samples["status"].value_counts().items()}
    return {
        "card_version": CARD,
        "modality": "image",
        "evaluation_date": datetime.fromisoformat(record["created"]).date().isoformat(),
        **({"authors": [{"name": details.by}]} if details.by else {}),
        "system": _system(run),
        "intended_use": {"in_scope": list(details.in_scope), "out_of_scope": list(details.out_of_scope)},
        **_scope(run.suite, shown, verdicts_and_rows, has_refusals=bool(refusals)),
        "decision_rules": _RULES,
        "reproducibility": {
            "code_url": f"pkg:pypi/clinometer@{record['versions']['clinometer']}",
            "license": "Apache-2.0",
            "data_release": f"run {record['checksum']}, suite {record['suite_fingerprint']} (SHA-256)",
            "seeds": [int(record["seed"])],
            "total_samples": sum(statuses.values()),
            "regen_command": " ".join(filter(None, (shown.command, shown.missing and f"# {shown.missing}"))),
        },
        "example_result": {
            "description": "All verdicts of the run, with 95 % intervals.",
            "columns": ["about", "metric", "value", "low", "high", "q", "images", "verdict"],
            "rows": [
                [
                    verdicts.name(row), row.component,
                    *map(_plain, (row.value, *row.ends(verdicts.over), row.q)), int(row.n_target),
                    verdicts.verdict(row),
                ]
                for verdicts, row in verdicts_and_rows
            ],
        },
        **_image_extension(run, shown, refusals, statuses),
    }  # fmt: skip


def _system(run: Run) -> dict[str, Any]:
    """Describe the model that the numbers are about."""
    card = run.model_card
    known = {"revision": card.get("revision"), "weights (SHA-256)": card.get("weights_sha256")}
    identity = ", ".join(f"{name} {value}" for name, value in known.items() if value)
    is_on_hub = bool(card.get("revision")) and bool(REPOSITORY.fullmatch(str(card["name"])))
    precision = (card.get("settings") or {}).get("dtype")
    return {
        "name": str(card["name"]),
        "version": identity or f"fingerprint {run.record['model']['fingerprint']}",
        "surface": "served-system" if is_served(card) else "base-model",
        **({"checkpoint_url": f"https://huggingface.co/{card['name']}"} if is_on_hub else {}),
        **({"precision": str(precision)} if precision else {}),
        "notes": f"{card['family']}; origin of the images: {run.record['origin']}.",
    }


def _scope(
    suite: Suite, shown: CardInput, judgements: Sequence[tuple[Verdicts, Row]], *, has_refusals: bool
) -> dict[str, Any]:
    """Describe what was measured, about whom, and what was not."""
    quantities = list({verdicts.title: (verdicts, row) for verdicts, row in judgements}.values())
    groups = getattr(suite, "groups", {})
    slices = []  # by the levels of axes where there are any
    for name in dict.fromkeys(spec.group for spec in suite.every_prompt_spec() if spec.group):
        cell = getattr(groups.get(name), "cell", None) if isinstance(groups, Mapping) else None
        slices.append(dict(cell) if cell else {"group": suite.label_of(name)})
    return {
        "fairness_scope": {
            "representational_harms": [
                one_line(f"{verdicts.title}, by {verdicts.unit}: {verdicts.meaning}") for verdicts, _ in quantities
            ],
            **({"access_harms": ["Rates of refusal, between groups."]} if has_refusals else {}),
            "excluded": [
                "Allocative harms: what follows from the use of the images is not measured.",
                *(" ".join(filter(None, limit)) for limit in limits_of(shown.page, shown.view)),
            ],
        },
        "protected_attributes": {
            "slices": slices,
            "operationalisation": (
                "Groups are named in the prompts of the attribute images and in words. The prompts of a concept name "
                "none: what its images show is read by the readers below, as perceived and not as anybody's identity."
            ),
        },
        "metrics": [
            {
                "name": row.component,
                "definition": one_line(f"{verdicts.title}: {verdicts.meaning}"),
                **({"threshold": margin} if (margin := getattr(suite, "margin", None)) else {}),
                "unit": verdicts.suffix or "score",
            }
            for verdicts, row in quantities
        ],
    }


def _image_extension(
    run: Run, shown: CardInput, refusals: Sequence[Row], statuses: Mapping[str, int]
) -> dict[str, Any]:
    """Return the fields of ``image.yaml``: what of an audit of images decides its verdicts and is often left unsaid."""
    record, suite = run.record, run.suite
    settings = flat(run.model_card.get("settings") or {})
    specs = list(suite.prompt_specs())
    return {
        "prompt_suite": {
            "suite_name": suite.name,
            "suite_hash": record["suite_fingerprint"],
            "families": list(_families(specs)),
            "total_prompts": len({spec.prompt for spec in specs}),
        },
        "sampler": {
            "family": str(run.model_card["family"]),
            "settings": {name: value for name, value in settings.items() if value != wording.MISSING},
        },
        "noise_policy": {
            "seed": int(record["seed"]),
            "images_per_prompt": suite.images_in_words(),
            "policy": (
                "Each image has its own generator of noise, seeded from its place in the plan, regardless of batches."
                if record["origin"] == "generated"
                else "Not known: the images existed before the audit; the seed is that of the resampling."
            ),
            "shared": sorted({spec.noise for spec in specs if spec.noise}),
        },
        "reader": _readers(run, shown),
        "refusal_handling": {
            "refusal_definition": "The model, or its own filter, returned no image and said that it refused.",
            "retention_policy": "kept-and-scored",
            "counts": statuses,
            "rates": [
                {"about": "/".join(filter(None, (row.component, row.concept, row.group))), "value": _plain(row.value),
                 "low": _plain(row.low), "high": _plain(row.high)}
                for row in refusals
            ],
        },
    }  # fmt: skip


def _readers(run: Run, shown: CardInput) -> dict[str, Any]:
    """Describe who read the images, and how they err where that is known."""
    models = [*shown.report.encoder_cards.values(), *run.record.get("readers", {}).values()]
    errors = [
        {"measure": row.component, "value": _plain(row.value), "low": _plain(row.low), "high": _plain(row.high),
         "images": int(row.n_target), "encoder": row.encoder,
         **({"group": run.suite.label_of(row.group)} if row.group else {})}
        for row in shown.view.scores
        if row.metric == "reader" and row.component in ("sensitivity", "specificity", "informedness")
    ]  # fmt: skip
    return {
        "type": "embedding" if shown.report.encoder_cards else "none",
        "models": [{key: str(each[key]) for key in ("name", "family", "fingerprint")} for each in models],
        "error_rates": errors,
        "errors_known": bool(errors),
    }


def _families(specs: Iterable[PromptSpec]) -> Iterator[dict[str, Any]]:
    """Return the prompts by purpose: those of a category of concepts, and those of a group."""
    families: dict[tuple[str, str], list[str]] = {}
    for spec in specs:
        families.setdefault((spec.role, spec.category or spec.group), []).append(spec.prompt)
    for number, ((role, name), prompts) in enumerate(families.items(), start=1):
        distinct = list(dict.fromkeys(prompts))
        yield {
            "id": f"F{number}",
            "name": f"{role}: {name}" if name else role,
            "template": distinct[0],
            "paraphrases": distinct,
        }


def _plain(value: float) -> float | None:
    return float(value) if isfinite(value) else None
