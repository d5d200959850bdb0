"""A run's images as a data set, a suite as a benchmark, and how a run gets to the Hugging Face Hub.

The data set is the run's parts as they are, which ``datasets`` reads, with a card and a description by Croissant 1.1
and its responsible-AI vocabulary.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata, resources
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from clinometer._secrets import masked, remember
from clinometer.errors import InvalidInputError, RunCorruptError, RunStorageError
from clinometer.exports.formats import eval_results, results_name, tasks_of, yaml_text
from clinometer.exports.model_cards import CardDetails, card_input, is_served
from clinometer.exports.paper import OWN_MARKS
from clinometer.report import wording
from clinometer.report.model_card import ROWS, environment, fenced, hub, limits_of, merged, one_line, section_of
from clinometer.report.model_card import eval_results as model_index
from clinometer.runs import Directory, NoProgress, Run
from clinometer.runs.ledger import samples_name
from clinometer.runs.verification import unfinished, verify
from clinometer.suites import Suite, suite_names

CARD: Final = "README.md"
CROISSANT: Final = "croissant.json"
BESIDES: Final = ("scores.parquet", "run.json", "report.html")
"""Files of a run that lie beside its images."""

COLUMNS: Final = {
    "id": ("sc:Text", "the name of the image in the run"),
    "prompt": ("sc:Text", "the prompt that asked for it"),
    "concept": ("sc:Text", "the concept that it was asked for; empty for a group's own images"),
    "role": ("sc:Text", "target, without a group; attribute, with one; or what the study calls it"),
    "group": ("sc:Text", "the group that the prompt names; empty where it names none"),
    "category": ("sc:Text", "the concept's category in the suite"),
    "seed": ("sc:Integer", "the seed of its noise"),
    "status": ("sc:Text", "ok, refused, failed, or blank"),
    "image": ("sc:ImageObject", "the picture; empty where there is none"),
    "sha256": ("sc:Text", "SHA-256 of the picture's bytes"),
    "flagged": ("sc:Boolean", "whether a safety checker flagged it"),
}
"""Columns of the parts that are described: their type in Croissant, and what they are."""

_TARGET: Final = re.compile(r"hf://(?:(?P<kind>datasets|models)/)?(?P<name>[\w-][\w.-]*/[\w-][\w.-]*)", re.ASCII)


# --- a run's images -------------------------------------------------------------------------------------------------


def dataset_of(run: Run, *, license: str = "") -> dict[str, bytes | str]:
    """Gather the files of a run's data set: the bytes of those that are made, and the name in the run of the others.

    Every file of the run is read, and compared with its checksum.

    Raises
    ------
    RunError
        The run is damaged, has no checksums, is not finished, or holds no images.
    """
    require_to_be_passed_on(run)
    run.require_images("a data set")
    parts = {f"data/part-{part:05d}.parquet": samples_name(part) for part in run.parts}
    besides = {name: name for name in BESIDES if run.directory.exists(name)}
    written = {CARD: _card(run, license), CROISSANT: json.dumps(_croissant(run, parts, license), indent=2) + "\n"}
    return {name: content.encode("utf-8") for name, content in written.items()} | parts | besides


def write_dataset(run: Run, out: str | os.PathLike[str], *, license: str = "") -> list[str]:
    """Write a run's data set into a folder; return the files' names.

    Raises
    ------
    RunError, InvalidInputError
        As of :func:`dataset_of`; the folder cannot be written, or is the run itself.
    """
    place = Directory(out)
    if place.place == run.directory.place:
        raise InvalidInputError.conflict(f"{place.shown}: this is the run itself; give another folder")
    files = dataset_of(run, license=license)
    place.require_place()
    place.require_own(files, OWN_MARKS)
    for name, content in files.items():
        place.write_bytes(name, content if isinstance(content, bytes) else _bytes_of(run, content))
    return list(files)


def require_to_be_passed_on(run: Run) -> None:
    """Refuse a run that is not whole, not finished, or of which nothing tells whether it is.

    Raises
    ------
    RunError
        It is; the message says which file, and the way out.
    """
    if run.unchecked:
        raise RunCorruptError(f"{run.url}: {run.unchecked}, so it is not sent; run the audit again in a new folder")
    verify(run, NoProgress())
    if left := unfinished(run):
        raise RunCorruptError.incomplete(f"{run.url}: it is not finished: {left}; finish it first")


def _bytes_of(run: Run, name: str) -> bytes:
    return run.directory.read_bytes(name, most=run.directory.size(name))


def _origin(run: Run) -> str:
    card = run.model_card
    if run.record["origin"] == "imported":
        return f"finished images, imported under the name {card['name']}; how they were made is not known here."
    return f"drawn by {card['name']} ({card['family']}) for the suite {run.suite.title}, seed {run.record['seed']}."


def _counts(run: Run) -> dict[str, int]:
    return {str(name): int(n) for name, n in run.samples["status"].value_counts().items()}


def _card(run: Run, license: str) -> str:
    shown = card_input(run)
    head = card_head(
        run.suite, {"config_name": "default", "data_files": [{"split": "test", "path": "data/*.parquet"}]},
        license=license,
    )  # fmt: skip
    body = environment().get_template("run_dataset.md").render(
        title=shown.report.title,
        drawn=f"{_counts(run).get('ok', 0):,}",
        how=_origin(run),
        license=f"Licence: {license}." if license else "The publisher has stated no licence; the model's may apply.",
        columns=[(Markup(f"`{name}`"), meaning) for name, (_, meaning) in COLUMNS.items()],
        section=Markup(section_of([shown], rows=ROWS, version=metadata.version("clinometer"))),
    )  # fmt: skip
    return head + body.strip() + "\n"


def _croissant(run: Run, parts: Mapping[str, str], license: str) -> dict[str, Any]:
    """Describe the data set by Croissant 1.1 and its responsible-AI vocabulary."""
    files = [
        {
            "@type": "cr:FileObject", "@id": name, "name": name, "contentUrl": name,
            "contentSize": f"{run.directory.size(stored)} B", "encodingFormat": "application/x-parquet",
            "sha256": run.directory.sha256(stored),
        }
        for name, stored in {**parts, "scores.parquet": "scores.parquet"}.items()
    ]  # fmt: skip
    fields = [
        {
            "@type": "cr:Field", "@id": f"images/{name}", "name": name, "description": meaning, "dataType": kind,
            "source": {
                "fileSet": {"@id": "parts"}, "extract": {"column": name},
                **({"transform": {"jsonPath": "bytes"}} if name == "image" else {}),
            },
        }
        for name, (kind, meaning) in COLUMNS.items()
    ]  # fmt: skip
    title = f"{run.model_card['name']} × {run.suite.title}"
    context = resources.files("clinometer.exports") / "croissant_context.json"  # of 1.1, as mlcroissant 1.1.1 has it
    return {
        "@context": json.loads(context.read_text("utf-8")),
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": re.sub(r"[^A-Za-z0-9._-]+", "-", f"{run.model_card['name']}-{run.suite.name}").strip("-."),
        "description": one_line(f"Images of an audit of social bias: {_origin(run)}"),
        "license": license or "not stated",
        "citeAs": f"@misc{{clinometer-{run.record['checksum'][:8]}, title = {{Images of an audit: {one_line(title)}}}, "
        f"year = {{{run.record['created'][:4]}}}, note = {{clinometer run {run.record['checksum']}}}}}",
        "datePublished": run.record["created"][:10],
        "dateCreated": run.record["created"][:10],
        "version": "1.0.0",
        "keywords": ["text-to-image", "social bias", "audit", run.suite.name],
        "isLiveDataset": False,
        "distribution": [*files, {
            "@type": "cr:FileSet", "@id": "parts", "name": "parts", "includes": "data/*.parquet",
            "encodingFormat": "application/x-parquet", "description": "All images, in parts.",
        }],
        "recordSet": [{
            "@type": "cr:RecordSet", "@id": "images", "name": "images", "key": {"@id": "images/id"},
            "description": "One image per row, with its prompt and what became of it.", "field": fields,
        }],
        **_responsible(run),
    }  # fmt: skip


def _responsible(run: Run) -> dict[str, Any]:
    """Describe what a reader of the data must know: how they came about, what is missing, how they lean."""
    shown = card_input(run)
    lost = ", ".join(f"{n:,} {status}" for status, n in _counts(run).items() if status != "ok")
    groups = dict.fromkeys(run.suite.label_of(spec.group) for spec in run.suite.every_prompt_spec() if spec.group)
    is_drawn = run.record["origin"] == "generated"
    tools = [f"{name} ({card['family']}, {card['fingerprint']})" for name, card in shown.report.encoder_cards.items()]
    return {
        "rai:dataCollection": one_line(f"The images were {_origin(run)} {run.suite.images_in_words()}."),
        "rai:dataCollectionType": ["Web API" if is_served(run.model_card) else "Software Collection"],
        "rai:dataCollectionMissingData": lost or "None: every image that was asked for is there.",
        "rai:dataCollectionRawData": "The images as the model returned them, their prompts and their seeds.",
        "rai:dataCollectionTimeframe": [run.record["created"][:10]],
        "rai:dataPreprocessingProtocol": ["None."],
        "rai:dataAnnotationProtocol": [
            "Concept and group are those of the prompt. Nobody annotated a picture; what it shows is read by the tools "
            "named here, as perceived and not as anybody's identity."
        ],
        **({"rai:machineAnnotationTools": tools} if tools else {}),
        "rai:dataBiases": [
            one_line(text) for text in (shown.page.finding(shown.view), shown.page.strongest(shown.view)) if text
        ],
        "rai:dataUseCases": [
            "Auditing the model for social bias, and checking or repeating this audit. Not for training: the leanings "
            "that it measures would be learnt."
        ],
        "rai:dataLimitations": [
            one_line(" ".join(filter(None, limit))) for limit in limits_of(shown.page, shown.view)
        ] or ["No limits are stated beyond the scores."],
        "rai:dataSocialImpact": "The images may show stereotypes. They are published to measure them.",
        "rai:personalSensitiveInformation": [
            f"Groups that prompts name: {wording.listed(list(groups))}." if groups else "No prompt names a group.",
            "The people are synthetic; a model may still reproduce a picture that it was trained on."
            if is_drawn else "Whether the pictures show real people is not known here.",
        ],
    }  # fmt: skip


# --- a suite as a benchmark -----------------------------------------------------------------------------------------


def write_benchmark(suite: Suite, out: str | os.PathLike[str]) -> list[str]:
    """Write a suite as a benchmark data set of the Hub into a folder; return the files' names.

    Raises
    ------
    SuiteError
        What its study judges follows from a run.
    RunStorageError
        The folder cannot be written.
    """
    tasks, place = tasks_of(suite), Directory(out)
    place.require_place()
    about = {
        "name": suite.title,
        "description": one_line(suite.description),
        "evaluation_framework": "clinometer",
        "tasks": [{"id": task, "config": "default", "split": "test"} for task in tasks],
    }
    rows = [
        {name: getattr(spec, name) for name in ("prompt", "role", "concept", "category", "group", "images")}
        for spec in suite.prompt_specs()
    ]
    head = card_head(
        suite, {"config_name": "default", "data_files": [{"split": "test", "path": "test.jsonl"}]},
        license="apache-2.0" if suite.name in suite_names() else "",
    )  # fmt: skip
    body = environment().get_template("suite_dataset.md").render(
        suite=suite, tasks=len(tasks),
        command=fenced("clinometer audit --model MODEL --suite suite.yaml --out runs/mine\n"
                       "clinometer card runs/mine --format eval-results --benchmark OWNER/NAME --out .", "sh"),
    )  # fmt: skip
    files = {
        "README.md": head + body.strip() + "\n",
        "eval.yaml": yaml_text(about),
        "test.jsonl": "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows),
        "suite.yaml": yaml_text(suite.model_dump(mode="json")),
    }
    place.require_own(files, OWN_MARKS)
    for name, content in files.items():
        place.write_bytes(name, content.encode("utf-8"))
    return list(files)


def card_head(suite: Suite, config: Mapping[str, Any], *, license: str) -> str:
    """Write the metadata of a data set's card."""
    about = {
        "pretty_name": suite.title,
        **({"license": license} if license else {}),
        **({"language": [suite.language]} if suite.language else {}),
        "task_categories": ["text-to-image"],
        "tags": ["clinometer", "social-bias", "fairness", "text-to-image"],
        "configs": [dict(config)],
    }
    return f"---\n{yaml_text(about)}---\n"


# --- to the Hub -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pushed:
    """What was sent to the Hub, or would be.

    Attributes
    ----------
    target : the repository.
    files : the files and their sizes in bytes.
    url : the commit, or the pull request; empty where nothing was sent.
    notes : what else is to be known.
    """

    target: str
    files: Mapping[str, int]
    url: str = ""
    notes: tuple[str, ...] = field(default=())


def push(
    run: Run, target: str, *, dry_run: bool, details: CardDetails, license: str, public: bool, pull_request: bool
) -> Pushed:
    """Send a run to the Hub: its images to a data set's repository, or its results to a model's.

    The token is huggingface_hub's own, from its store or its environment; it is not read here, and is in no message.

    Raises
    ------
    InvalidInputError, ModelError
        The target is none; huggingface_hub is not installed.
    RunError
        The run is damaged, has no checksums or is not finished; the Hub refuses, or does not answer.
    """
    found = _TARGET.fullmatch(target)
    if not found:
        raise InvalidInputError.malformed(
            f"found {target!r}, expected hf://datasets/OWNER/NAME for the images, or hf://OWNER/NAME for the results "
            "of a model",
            field="target",
        )
    is_dataset = found["kind"] == "datasets"
    if is_dataset and (details.benchmark or details.source):
        raise InvalidInputError.unsupported("it goes with a model's repository alone; leave it out", field="benchmark")
    if not is_dataset and (license or public):
        raise InvalidInputError.unsupported(
            "it goes with a data set alone; leave it out", field="license" if license else "public"
        )
    hub_module = hub()
    files = dataset_of(run, license=license) if is_dataset else _results(run, details)
    _require_no_home(run, files)
    sizes = {
        name: len(content) if isinstance(content, bytes) else run.directory.size(content)
        for name, content in files.items()
    }
    if dry_run:
        card_stays = ("README.md is put into the card that is there, which stays.",)
        return Pushed(target, sizes, notes=() if is_dataset else card_stays)
    api = hub_module.HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    remember(*filter(None, [hub_module.get_token()]))
    try:
        if is_dataset and not pull_request:
            api.create_repo(found["name"], repo_type="dataset", private=not public, exist_ok=True)
        if not is_dataset and api.file_exists(found["name"], CARD):
            there = Path(api.hf_hub_download(found["name"], CARD)).read_text("utf-8")
            files[CARD] = _with_section(run, there, index=not details.benchmark).encode("utf-8")
        elif not is_dataset:
            api.repo_info(found["name"])  # says so where there is no such repository
        adds = [
            hub_module.CommitOperationAdd(name, content if isinstance(content, bytes) else _bytes_of(run, content))
            for name, content in files.items()
        ]
        commit = api.create_commit(
            found["name"], adds, repo_type="dataset" if is_dataset else "model", create_pr=pull_request,
            commit_message=f"Add the audit {run.suite.name} of {run.model_card['name']}",
            commit_description=f"By clinometer {metadata.version('clinometer')}, run {run.record['checksum']}.",
        )  # fmt: skip
    except Exception as error:  # of requests, of its own, of the disk: the package has no base for them
        words = one_line(masked(str(error)))[:300]
        raise RunStorageError.refused(
            f"{target}: the Hub refused, or was not reached ({type(error).__name__}): {words}"
        ) from error
    return Pushed(target, sizes, url=str(commit.pr_url or commit.commit_url))


def _results(run: Run, details: CardDetails) -> dict[str, bytes | str]:
    """Gather what goes to a model's repository: its card, and evaluation results where a benchmark is named."""
    require_to_be_passed_on(run)
    files: dict[str, bytes | str] = {CARD: _with_section(run, "", index=not details.benchmark).encode("utf-8")}
    if details.benchmark:
        entries = eval_results(run, details)
        files[results_name(run.suite)] = yaml_text(entries).encode()
    return files


def _with_section(run: Run, before: str, *, index: bool) -> str:
    """Insert the section into a card, and the results as ``model-index`` where they have no files of their own."""
    shown = [card_input(run)]
    return merged(
        before,
        section_of(shown, rows=ROWS, version=metadata.version("clinometer")),
        model_index(shown, rows=ROWS) if index else [],
        model_name=str(run.model_card["name"]),
        source=CARD,
    )


def _require_no_home(run: Run, files: Mapping[str, bytes | str]) -> None:
    """Refuse to send a text that holds this user's home directory: a plug-in or an earlier version wrote it there."""
    home = os.path.expanduser("~").encode()
    for name, content in files.items() if len(home) > 1 else ():
        if name.endswith(".parquet"):
            continue
        if home in (content if isinstance(content, bytes) else _bytes_of(run, content)):
            raise RunCorruptError.untrusted(
                f"{run.url}: {name} would hold the path of your home directory; nothing was sent"
            )
    if any(home.decode() in (reason or "") for (reason,) in run.drawn.each(["reason"]) if len(home) > 1):
        raise RunCorruptError.untrusted(
            f"{run.url}: a sample's reason holds the path of your home directory; nothing was sent"
        )
