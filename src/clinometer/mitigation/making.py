"""From a model, a method and a target to a directory that ``--model``, ``--lora`` or ``--mitigation`` takes."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import entry_points
from math import inf
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from clinometer.errors import InvalidInputError, ModelError
from clinometer.models import load_generator, reference
from clinometer.models.mitigation import (
    FILE,
    IN_WORDS,
    TENSORS,
    Acts,
    GroupWords,
    Mitigation,
    with_group,
    write_mitigation,
)
from clinometer.models.registry import HUB_ID
from clinometer.models.weights import file_hash, locate, user_path
from clinometer.suites.base import Reference
from clinometer.suites.leaning import LeaningSuite
from clinometer.suites.strict import code_of

GROUP: Final = "clinometer.mitigations"
LORA_FILE: Final = "pytorch_lora_weights.safetensors"


@dataclass(frozen=True)
class Job:
    """The task of a method.

    Attributes
    ----------
    model, options : the model as ``--model`` names it, and what its adapter is given.
    suite : its groups say who is named how, and which images represent them.
    target : the share that each group is to have.
    targets : concept → the same, of concepts that are to have other shares.
    cited : ``reference``, where these are from.
    groups : how each group of the suite is named.
    prompts : concept → its neutral prompt; those that the method may learn from.
    seed : determines what it draws.
    settings : further settings, by name: ``strength``, ``images``, ``intervention``, ``encoder``, ``loss``,
        ``training_steps``, ``learning_rate``; None is the method's own.
    say : is called with the progress.
    """

    model: str
    options: Mapping[str, Any]
    suite: LeaningSuite
    target: Mapping[str, float]
    groups: Mapping[str, GroupWords]
    prompts: Mapping[str, str]
    seed: int
    settings: Mapping[str, Any]
    say: Callable[[str], None]
    targets: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    cited: Mapping[str, str] = field(default_factory=dict)

    def target_of(self, concept: str) -> Mapping[str, float]:
        """Return the share that each group is to have in a concept's images."""
        return self.targets.get(concept, self.target)

    def require_one_target(self, method: str) -> None:
        """Refuse shares that differ by concept.

        Raises
        ------
        InvalidInputError
            They do, and the method treats all prompts alike.
        """
        if self.targets:
            raise InvalidInputError.unsupported(
                f"method {method} treats all concepts alike; use balanced, steering, unconditional or lora",
                field="reference",
            )

    def setting(self, name: str, default: Any) -> Any:
        """Return a setting, or the default where it is not set."""
        value = self.settings.get(name)
        return default if value is None else value

    @cached_property
    def generator(self) -> Any:
        """The model, loaded when it is first used: a method that acts on words needs none."""
        return load_generator(self.model, **self.options)

    def pipeline(self, method: str) -> Any:
        """Return the model's pipeline of diffusers.

        Raises
        ------
        ModelError
            It has none.
        """
        if not hasattr(self.generator, "pipeline"):
            raise ModelError.unsupported(
                f"{self.model}: method {method} needs a pipeline of diffusers; use prompt or balanced"
            )
        return self.generator.pipeline

    def tried(self, acts_on: Acts, **fields: Any) -> Mitigation:
        """Make a record for a trial: with the target and the groups of the job, and without a gate."""
        record: dict[str, Any] = {"method": "trial", "acts_on": acts_on, "made_for": {}, "gate": "none"}
        targets = {self.prompts[name]: shares for name, shares in self.targets.items() if name in self.prompts}
        return check(**record, target=self.target, targets=targets, groups=self.groups, seed=self.seed, **fields)

    def named(self) -> dict[str, dict[str, str]]:
        """Name each group of the target in each concept's prompt: group → concept → prompt."""
        return {
            group: {concept: with_group(prompt, self.groups[group]) for concept, prompt in self.prompts.items()}
            for group in self.target
        }


@dataclass(frozen=True)
class Made:
    """The result of a method: where it acts, and what is written.

    ``tensors`` lie beside ``mitigation.json``; ``lora`` is the state of a LoRA; ``told`` is what it was made of, for
    the card.
    """

    acts_on: Acts
    template: str = ""
    strength: float = 1.0
    offsets: Mapping[str, float] = field(default_factory=dict)
    tensors: Mapping[str, Any] = field(default_factory=dict)
    lora: Mapping[str, Any] | None = None
    told: Mapping[str, Any] = field(default_factory=dict)


Method: TypeAlias = Callable[[Job], Made]


@dataclass(frozen=True)
class Mitigated:
    """A mitigation that was written: its record, its directory, and the options by which an audit takes it."""

    mitigation: Mitigation
    directory: Path
    options: tuple[str, ...]


def methods() -> dict[str, str]:
    """Return the methods that are installed, each with the first line of its docstring."""
    summaries = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            summaries[point.name] = (inspect.getdoc(point.load()) or "").partition("\n")[0]
        except Exception as error:  # a plug-in that cannot be imported is listed all the same
            summaries[point.name] = f"cannot be imported: {error}"
    return summaries


def find_method(name: str) -> Method:
    """Load the method that an entry point offers by a name."""
    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        raise InvalidInputError.expected_one_of(sorted(points), name, field="method")
    try:
        method: Method = points[name].load()
    except Exception as error:  # importing a package runs it
        raise ModelError.failed(f"plug-in {name!r} ({points[name].value}) cannot be imported: {error}") from error
    return method


def declared_shares(standard: Reference, suite: LeaningSuite, groups: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return concept → group → the declared share among some groups; of two groups one share is enough."""
    standard.require_fit([each.name for each in suite.targets], "reference")
    declared: dict[str, dict[str, float]] = {}
    for (concept, group), (share, _) in standard.of_groups({name: suite.label_of(name) for name in groups}).items():
        declared.setdefault(concept, {})[group] = share
    for concept, shares in declared.items():
        lacking = [group for group in groups if group not in shares]
        if len(groups) == 2 and len(lacking) == 1:
            shares[lacking[0]] = 1 - sum(shares.values())
        elif lacking or not sum(shares.values()):
            declares = ", ".join(f"{group} {share:g}" for group, share in shares.items())
            raise InvalidInputError.missing(
                f"{concept}: found {declares}, expected a share of each of {', '.join(groups)}", field="reference"
            )
        total = sum(shares.values())
        declared[concept] = {group: shares[group] / total for group in groups}
    return declared


LEAST: Final = {"images": 1, "training_steps": 1, "learning_rate": 0.0, "strength": -inf}
"""The least value of each setting; one that is no whole number must exceed it."""


def write(job: Job, made: Made, place: Path, suite: str, record: Mapping[str, Any]) -> Mitigated:
    """Write a mitigation, whole or not at all: a copy of the pipeline, a LoRA, or the record alone."""
    model, is_lora = job.model, made.lora is not None
    source = None if is_lora else _pipeline_place(model, job.options)
    made_for: dict[str, str | None] = {"name": model, "family": None, "weights_sha256": None}
    if made.acts_on not in IN_WORDS:
        made_for = {name: getattr(job.generator.card, name) for name in made_for}
    defaults = reference.card()["defaults"] if model == "reference" else {}
    drawn_at = {"steps": defaults.get("steps"), "guidance_scale": defaults.get("guidance")}
    drawn_at |= {name: job.options[name] for name in drawn_at.keys() & job.options.keys()}
    if is_lora:
        options: tuple[str, ...] = ("--model", model, "--lora", str(place))
    elif source is not None:
        options = ("--model", str(place))
    else:
        options = ("--model", model, "--mitigation", str(place))
    partial = place.with_name(f".{place.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        if source is not None:
            shutil.copytree(source, partial)
        partial.mkdir(parents=True, exist_ok=True)
        mitigation = check(
            acts_on=made.acts_on, made_for=made_for, template=made.template, strength=made.strength,
            offsets=dict(made.offsets), tensors_sha256=_write_tensors(made, partial),
            drawn_at={name: value for name, value in drawn_at.items() if value is not None},
            made_of=dict(made.told) | {"suite": suite, "concepts": list(job.prompts)} | dict(job.cited),
            **record,
        )  # fmt: skip
        write_mitigation(mitigation, partial)
        card_text = _card(mitigation, model, methods()[mitigation.method], options)
        (partial / "README.md").write_text(card_text, "utf-8")
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir():
            place.rmdir()
        partial.rename(place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return Mitigated(mitigation, place, options)


def check(**fields: Any) -> Mitigation:
    """Build the record of a mitigation; a field out of its limits is named."""
    try:
        return Mitigation(**fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        problem = first["msg"].removeprefix("Value error, ")
        if first["type"] == "literal_error":
            problem = f"found {first['input']!r}, expected {first['ctx']['expected']}"
        name = str(first["loc"][0]) if first["loc"] else "target"
        raise InvalidInputError(problem.removeprefix("target: "), code=code_of(error), field=name) from error


def groups_of(suite: LeaningSuite, words: Mapping[str, str]) -> dict[str, GroupWords]:
    """Find how each group is named: as asked, as an adjective of "person" in its prompts, by its name, or first."""
    if unknown := [name for name in words if name not in suite.groups]:
        raise InvalidInputError.expected_one_of(suite.groups, unknown[0], field="word")
    groups = {}
    for name, group in suite.groups.items():
        prompts = " ".join(each.prompt.lower() for each in group.prompts)
        adjectives = [word for word in group.words if f" {word.lower()} person" in f" {prompts}"]
        word = words.get(name, next(iter([*adjectives, *({name} & set(group.words)), *group.words])))
        if not word.strip():
            raise InvalidInputError.missing(
                f"group {name!r} has no word to name it by; give --word {name}=WORD", field="word"
            )
        word = re.sub(r"^an?\s+", "", word.strip())
        adjective = f" {word.lower()} person" in f" {prompts}"
        groups[name] = GroupWords(
            word=word, adjective=adjective, names=tuple(dict.fromkeys([*group.words, word.partition(" with ")[0]]))
        )
    return groups


def _pipeline_place(model: str, options: Mapping[str, Any]) -> Path | None:
    """Find the directory of a model that is a pipeline; None of a server's model, of one file, or of a plug-in's."""
    spec = model.removeprefix("diffusers:")
    if model == "reference":
        return reference.pipeline_path()
    if spec and user_path(spec).is_dir():
        place = user_path(spec)
    elif HUB_ID.fullmatch(spec):
        from clinometer.models.diffusers.loading import download

        variant, offline = options.get("variant"), bool(options.get("offline"))
        place = locate(spec, lambda repository, revision: download(repository, revision, variant, offline)).path
    else:
        return None
    if (place / FILE).is_file():
        raise ModelError.conflict(f"{model} is mitigated already; start from the model that it was made of")
    return place


def _write_tensors(made: Made, folder: Path) -> str | None:
    """Write tensors and a LoRA; return the hash of the tensors."""
    if not (made.tensors or made.lora):
        return None
    from safetensors.torch import save

    # written by ourselves: safetensors makes files that nobody but their owner may read
    if made.lora:
        (folder / LORA_FILE).write_bytes(save(dict(made.lora)))
        return None
    (folder / TENSORS).write_bytes(save({name: value.contiguous() for name, value in made.tensors.items()}))
    return file_hash(folder / TENSORS)


_PLAIN: Final = {
    "pipeline": "**Only clinometer draws the mitigated images.** Plain diffusers "
    "(`DiffusionPipeline.from_pretrained`) does not know `mitigation.json`: it loads this directory as **the model "
    "before, unmitigated**.",
    "lora": "**Plain diffusers draws the mitigated images, too:** `pipeline.load_lora_weights(DIRECTORY)` loads the "
    "LoRA. Only clinometer reads the gate in `mitigation.json`: without it, prompts that name a group are drawn with "
    "the LoRA as well.",
    "alone": "**Only clinometer draws the mitigated images.** There are no weights here. This file tells "
    "clinometer how to change the prompts of a model.",
}


def _card(mitigation: Mitigation, model: str, method: str, options: Sequence[str]) -> str:
    """Write the card: what was done, to what, how to use it, and what it does outside of clinometer."""
    kind = "lora" if "--lora" in options else "alone" if "--mitigation" in options else "pipeline"
    shares = ", ".join(f"{name} {share:.3g}" for name, share in mitigation.target.items())
    if mitigation.targets:
        cited = mitigation.made_of["reference"]
        shares += f"; for {len(mitigation.targets)} prompts those of {cited}, listed in `mitigation.json`"
    gate = "prompts that name a group are left alone" if mitigation.gate == "words" else "none: all prompts are changed"
    if mitigation.acts_on == "weights" and mitigation.gate == "words":
        gate += " by clinometer, which leaves the LoRA out of their images; the weights by themselves have no gate"
    named = "; ".join(
        f"{name} as “{group.word}”" for name, group in mitigation.groups.items() if name in mitigation.target
    )
    concepts = mitigation.made_of["concepts"]
    further = " --reference FILE" if mitigation.targets else ""
    return f"""---
{f"base_model: {model}" if HUB_ID.fullmatch(model) else "library_name: clinometer"}
tags: [clinometer, mitigation, {mitigation.method}]
---

# {mitigation.method}: {model}, mitigated

{_PLAIN[kind]}

{method}

| | |
|---|---|
| acts on | {mitigation.acts_on} |
| target | {shares} |
| groups are named | {named} |
| gate | {gate} |
| strength | {mitigation.strength:g} |
| made from | {len(concepts)} concepts of the suite {mitigation.made_of["suite"]}: {", ".join(concepts)} |
| made for | {mitigation.made_for["name"]}, weights {mitigation.made_for.get("weights_sha256") or "any"} |

Whether it works, and what else it changes, is not known before it is measured:

    clinometer audit --model {model} --out runs/before
    clinometer audit {" ".join(options)} --out runs/after{further}
    clinometer compare runs/before runs/after --out runs/change
"""
