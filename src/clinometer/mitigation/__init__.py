"""Methods that reduce a leaning: each turns a model into one that ``--model`` accepts again.

    >>> from clinometer.mitigation import methods
    >>> sorted(methods())
    ['balanced', 'lora', 'projection', 'prompt', 'steering', 'unconditional']

A method is a function from a `Job` to what it `Made`, offered by an entry point of the group
``clinometer.mitigations``; the first line of its docstring describes it on the card. Its result acts on words,
embeddings, cross-attention or weights; :mod:`clinometer.models.mitigation` defines the files, and the loaders of models
do the rest. Whether a method works is shown by comparing an audit of the model before with one of the model after.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from math import isfinite, isinf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from clinometer.errors import InvalidInputError, SuiteError
from clinometer.pipeline.request import Argument, AskedSuite, Option, Place, ask, documented

if TYPE_CHECKING:
    from clinometer.mitigation.making import Job, Made, Mitigated, methods
    from clinometer.suites.base import Reference

__all__ = ["Job", "Made", "Mitigated", "methods", "mitigate"]


def __getattr__(name: str) -> Any:
    """Load :mod:`making` only when needed: the command line reads the signature below, and starts at once."""
    if name in __all__:
        from clinometer.mitigation import making

        return getattr(making, name)
    raise AttributeError(f"module 'clinometer.mitigation' has no attribute {name!r}")


@documented
def mitigate(
    model: Annotated[
        str,
        Argument("A model as for audit: reference, a pipeline directory or a hub id."),
    ],
    method: Annotated[
        str, Option("prompt, balanced, projection, unconditional, steering, lora, or the name of a plug-in.")
    ],
    out: Annotated[Place, Option("The directory to write; it must be empty or not exist yet.", short="-o")],
    *,
    suite: Annotated[
        AskedSuite, Option("A suite of the study leaning, for its groups and the concepts to learn from.", short="-s")
    ] = "reference",
    target: Annotated[
        Mapping[str, float] | None,
        Option(
            "Shares of the groups to aim for: man=0.5,woman=0.5.",
            default="equal shares of the groups compared",
            kind=str,
        ),
    ] = None,
    reference: Annotated[
        "Place | Reference | None",
        Option("A declared standard, as for audit: for its concepts, aim for its shares.", kind=str),
    ] = None,
    gate: Annotated[
        str, Option("'words' leaves prompts that name a group as they are; 'none' changes all prompts.")
    ] = "words",
    concepts: Annotated[
        int | Sequence[str] | str | None,
        Option("Concepts to learn from: a number per category, or names.", default="all"),
    ] = None,
    words: Annotated[
        Mapping[str, str] | None,
        Option("The word that names a group in a prompt: man=male. Repeatable.", key="word", many=True),
    ] = None,
    seed: Annotated[int, Option("Seed that determines what is drawn, and which image shows which group.")] = 0,
    options: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = lambda _: None,
    **settings: Any,
) -> "Mitigated":
    """Make of a model one that leans less, as far as the method can, and write it to ``out``.

    Parameters
    ----------
    method : the name of an entry point of the group ``clinometer.mitigations``.
    target : group → share, which sum to 1; None is the two groups that the suite compares, or all its cells, alike.
    reference : a declared standard, or a file with one as ``clinometer audit --reference`` takes it: its concepts are
        to have its shares, among the groups of ``target``; the others those of ``target``.
    concepts : fewer concepts to learn from, as in an audit; the others tell whether it holds beyond them.
    words : group → the word that puts it into a prompt, where the suite's own will not do.
    options : what the model's adapter takes, such as ``steps``.
    say : is called with the progress.
    **settings : ``strength``, ``images``, ``intervention``, ``encoder``, ``loss``, ``training_steps``,
        ``learning_rate``.

    Raises
    ------
    InvalidInputError, SuiteError, ModelError
        There is no such method; a target that does not sum to 1; a standard that lacks a group's share, or that the
        method cannot follow; a group without words; a suite of another study; a model that the method cannot change; a
        loss that is not finite. Nothing is written then.
    """
    from clinometer.mitigation import making
    from clinometer.models.registry import require_names
    from clinometer.readings.standard import read_reference
    from clinometer.suites import load_suite
    from clinometer.suites.leaning import LeaningSuite

    make = making.find_method(method)
    require_names((), generators=[model])
    place = Path(out)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InvalidInputError.already_exists(f"{place} is there already; name a directory that is not", field="out")
    for name, least in making.LEAST.items():
        value, is_count = settings.get(name), isinstance(least, int)
        if value is not None and not (isfinite(value) and (value >= least if is_count else value > least)):
            wanted = "a finite number" if isinf(least) else f"{least} or more" if is_count else "a number above 0"
            raise InvalidInputError.out_of_range(f"found {value}, expected {wanted}", field=name)
    whole = load_suite(suite) if isinstance(suite, str | Path) else suite
    if not isinstance(whole, LeaningSuite):
        raise SuiteError.unsupported(
            f"suite {whole.name} is of study {whole.study}, which has no neutral prompts; expected leaning"
        )
    learned = whole.with_options(concepts=ask(concepts=concepts).concepts) if concepts is not None else whole
    groups = making.groups_of(whole, words or {})
    compared = list(whole.groups) if whole.axis is None else [whole.axis.a, whole.axis.b]
    shares = {name: 1 / len(compared) for name in compared} if target is None else dict(target)
    of_model = {name: value for name, value in (options or {}).items() if value not in (None, "auto")}
    prompts = {each.name: each.prompt for each in learned.targets}
    standard = read_reference(reference) if isinstance(reference, str | os.PathLike) else reference
    targets = {} if standard is None else making.declared_shares(standard, whole, list(shares))
    cited = {} if standard is None else {"reference": standard.cited}
    job = making.Job(model, of_model, learned, shares, groups, prompts, seed, settings, say, targets, cited)
    record = {"method": method, "target": shares, "groups": groups, "gate": gate, "seed": seed}
    record |= {"targets": {each.prompt: targets[each.name] for each in whole.targets if each.name in targets}}
    making.check(acts_on="prompt", made_for={}, **record)  # a wrong target must not cost the training
    return making.write(job, make(job), place, whole.name, record)
