"""From finished runs to a model card: the part on bias, by itself or within a card that is there."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final

from clinometer.errors import InvalidInputError, RunMismatchError, RunNotFoundError
from clinometer.models.images import MAX_PIXELS
from clinometer.models.openai import OPENAI
from clinometer.pipeline.audits import REFERENCE_PORTRAITS
from clinometer.pipeline.request import OF_SUITE
from clinometer.report.model_card import CardInput, eval_results, merged, section_of
from clinometer.report.verdicts import Verdicts
from clinometer.report.view import Row
from clinometer.runs import Directory, Run
from clinometer.runs.record import COUNTED
from clinometer.studies import study_of
from clinometer.studies.reporting import report_input
from clinometer.suites import load_suite, suite_names

_OPTIONS: Final = (
    "steps", "guidance_scale", "height", "width", "negative_prompt", "prior_steps", "prior_guidance_scale",
    "edit_steps", "edit_guidance_scale", "dtype", "quality",
)  # fmt: skip
"""Settings of drawing that are options of ``clinometer audit`` by the same name, less ``_scale``."""

FOLDER: Final = "DIR"
FILE: Final = "SUITE.yaml"
SERVER: Final = "URL"
TABLE: Final = "COUNTS.csv"
_STANDS_FOR: Final = {
    FOLDER: f"Replace {FOLDER} with the folder of images and manifest.",
    TABLE: f"Replace {TABLE} with the table of counts, which the run contains.",
    FILE: f"Replace {FILE} with a file of the suite, which run.json contains.",
    SERVER: f"Replace {SERVER} with the address of the server; run.json has the parts of it that are not secret.",
}


def write_model_card(runs: Sequence[Run], out: str | os.PathLike[str] | None, *, rows: int) -> str:
    """Return the card of the runs' model; into a file where one is named, whose own text and metadata stay.

    Raises
    ------
    InvalidInputError, RunError, ModelError
        No run, or a card that cannot be changed; a run that cannot be read; huggingface_hub is not there.
    """
    if not runs:
        raise InvalidInputError.too_few("found none, expected one or more", field="runs")
    if rows < 1:
        raise InvalidInputError.out_of_range(f"found {rows}, expected 1 or more", field="rows")
    require_one_model(runs)
    folder, name = (None, "") if out is None else place_of(out)
    before = _read(folder, name) if folder is not None else ""
    inputs = [card_input(run) for run in runs]
    text = merged(
        before.removeprefix(_BOM),
        section_of(inputs, rows=rows, version=metadata.version("clinometer")),
        eval_results(inputs, rows=rows),
        model_name=str(runs[0].model_card["name"]),
        source=os.fspath(out) if out is not None else "the card",
    )
    if before.startswith(_BOM):
        text = _BOM + text
    if folder is not None and text != before:
        folder.write_bytes(name, text.encode("utf-8"))
    return text


_BOM: Final = "\N{ZERO WIDTH NO-BREAK SPACE}"


def card_input(run: Run) -> CardInput:
    """Return what a card shows of a run."""
    with run.directory.listed_once():
        report = report_input(run)
    words = list(command_words(run))
    return CardInput(report, study_of(report.suite).page(report.suite), in_a_shell(words), command_lacks(run, words))


REPOSITORY: Final = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
"""A repository of the Hub."""

_SERVED: Final = ("openai-", "gemini-")
"""How the families begin of models that are served by others."""


@dataclass(frozen=True)
class CardDetails:
    """What a run does not know, and somebody types by hand.

    Attributes
    ----------
    benchmark : the data set on the Hub that holds the suite, ``owner/name``.
    source : where the run can be seen, an address.
    by : who made the evaluation.
    in_scope, out_of_scope : what the conclusions are for, and what they are not for.
    """

    benchmark: str = ""
    source: str = ""
    by: str = ""
    in_scope: Sequence[str] = ()
    out_of_scope: Sequence[str] = ()


def is_served(card: Mapping[str, Any]) -> bool:
    """Return whether a model answers behind somebody's server."""
    return str(card["family"]).startswith(_SERVED)


def judged(run: CardInput) -> list[tuple[Verdicts, Row]]:
    """Return everything that was judged, with how it is written."""
    return [(verdicts, row) for verdicts in run.verdicts for row in verdicts.rows]


def command_lacks(run: Run, words: Sequence[str]) -> str:
    """Return what the command does not say; empty where it makes the run again as it stands."""
    sentences = [_STANDS_FOR[word] for word in words if word in _STANDS_FOR]
    if (run.record.get("until") or {}).get("of"):
        sentences.append(
            "The run is a cell of a sweep, which determined how many images it draws; the command draws all of them."
        )
    return " ".join(sentences)


def require_one_model(runs: Sequence[Run]) -> None:
    """Refuse runs of different models: by their weights and what was merged into them, where known, else by names.

    Raises
    ------
    RunMismatchError
        They are.
    """
    first = runs[0]
    for run in runs[1:]:
        if _model(run) != _model(first):
            raise RunMismatchError(
                f"{run.url}: its model is {run.model_card['name']}, that of {first.url} is {first.model_card['name']}, "
                "or their weights differ; a model card is of one model, so give each its own"
            )


def _model(run: Run) -> Any:
    card = run.model_card
    if run.record["origin"] != "generated":  # the hash is that of its images
        return card["name"]
    changes = [card["settings"].get(name) for name in ("lora", "mitigation")]
    return card.get("weights_sha256") or (card["name"], card.get("revision")), changes


def place_of(out: str | os.PathLike[str]) -> tuple[Directory, str]:
    """Find the folder of a file, which must be there, and the file's name in it."""
    path = os.fspath(out)
    path = path if "://" in path else os.path.realpath(os.path.expanduser(path))  # a link stays one
    parent, _, name = path.rpartition("/")
    if not name or ("://" not in path and os.path.isdir(path)):
        raise InvalidInputError.wrong_type(
            f"found the folder {out}, expected a file; give {path.rstrip('/')}/README.md", field="out"
        )
    folder = Directory(parent or "/")
    if folder.is_local and not os.path.isdir(parent or "/"):
        raise InvalidInputError.not_found(f"found {out}, and no folder {parent}; make it first", field="out")
    folder.require_writable()
    return folder, name


def _read(folder: Directory, name: str) -> str:
    try:
        return folder.read_bytes(name).decode("utf-8")
    except RunNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise InvalidInputError.not_text(f"{folder.path(name)}: it is not UTF-8 text; save it as such") from error


def command_words(run: Run) -> Iterator[str]:
    """Yield the command that draws and measures a run again; capitals stand for what the run does not name."""
    card = run.model_card
    if run.record["origin"] == "generated" and str(card.get("family", "")).startswith("openai-images/"):
        yield from ("clinometer", "audit", "--model", f"openai:{card['settings']['model']}")
        yield from ("--price", _spell(card["notes"]["price_per_image"]))
        if card["settings"].get("server", OPENAI) != OPENAI:
            yield from ("--base-url", SERVER)
        yield from (*_suite_words(run), *_drawing_words(run))
    elif run.record["origin"] == "generated":
        yield from ("clinometer", "audit", "--model", _with_revision(card), *_suite_words(run), *_drawing_words(run))
    elif run.record["origin"] == COUNTED:
        yield from ("clinometer", "import", "--counts", TABLE, "--name", str(card["name"]))
        return
    else:
        yield from ("clinometer", "import", FOLDER, "--name", str(card["name"]), *_suite_words(run))
        most = card["settings"].get("max_pixels", MAX_PIXELS)
        if most != MAX_PIXELS:
            yield from ("--max-pixels", str(most))
    for name in run.encoder_cards:
        yield from ("--encoder", name)
    yield from ("--seed", str(run.record["seed"]))


def in_a_shell(words: Sequence[str]) -> str:
    """Return words as a shell takes them, and without a comment of HTML: one of ours would end the section.

    >>> in_a_shell(["clinometer", "audit", "--model", "a <!-- b"])
    "clinometer audit --model 'a <''!-- b'"
    """
    return shlex.join(words).replace("<!--", "<''!--")


_SWITCHES: Final = {"compiled": "--compile", "vae_tiling": "--vae-tiling"}
"""Settings that are recorded where they are on."""


def _with_revision(source: Mapping[str, Any]) -> str:
    return f"{source['name']}@{source['revision']}" if source.get("revision") else str(source["name"])


def _drawing_words(run: Run) -> Iterator[str]:
    settings = run.model_card["settings"]
    for name in _OPTIONS:
        if settings.get(name) is not None:
            yield from (f"--{name.removesuffix('_scale').replace('_', '-')}", _spell(settings[name]))
    yield from (option for name, option in _SWITCHES.items() if settings.get(name))
    if scheduler := (settings.get("scheduler") or {}).get("class"):
        yield from ("--scheduler", scheduler)
    if settings.get("safety_checker") == "mark":
        yield from ("--safety-checker", "mark")
    if settings.get("size"):
        width, _, height = str(settings["size"]).partition("x")
        yield from ("--width", width, "--height", height)
    if settings.get("lora"):
        yield from ("--lora", _with_revision(settings["lora"]), "--lora-scale", _spell(settings["lora"]["scale"]))
        yield from ("--lora-partly",) if settings["lora"].get("placed") else ()
    if settings.get("mitigation"):
        yield from ("--mitigation", "DIRECTORY")
    if settings.get("portraits"):
        name = str(settings["portraits"]["name"])
        yield from ("--portraits", "reference" if name == REFERENCE_PORTRAITS else name)
    until = run.record.get("until")
    if until is not None and not until.get("of"):
        yield from ("--until", "decided" if until["precision"] is None else _spell(until["precision"]))


def _spell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _suite_words(run: Run) -> Iterator[str]:
    """Yield a built-in suite's name and the fewest options that make it the run's; of any other suite, its file."""
    suite = run.suite
    protocol = ["--protocol", "paper"] if run.record.get("protocol") else []
    if suite.name not in suite_names():
        yield from ("--suite", FILE, *protocol)
        return
    base = load_suite(suite.name)
    base = base.as_in_the_paper() if protocol else base
    kept = {name: value for name, value in run.record.get("options", {}).items() if name in OF_SUITE}
    images_asked = suite.model_dump()["images"]
    numbers = images_asked.values() if isinstance(images_asked, Mapping) else [images_asked]
    for images in (None, *dict.fromkeys(number for number in numbers if isinstance(number, int))):
        for text_targets in (None, getattr(suite, "text_targets", None)):
            settings = {**kept, "images": images, "text_targets": text_targets}
            if base.with_options(**settings).fingerprint == suite.fingerprint:
                yield from ("--suite", suite.name, *protocol)
                for name, value in settings.items():
                    if name == "phrases":
                        yield from (word for phrase in value or () for word in ("--phrase", phrase))
                    elif value:
                        typed = f"--{name.replace('_', '-')}"
                        yield from (typed,) if value is True else (typed, _spell(value))
                return
    yield from ("--suite", FILE, *protocol)
