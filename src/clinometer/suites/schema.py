"""Reading suites: a YAML file, data and no code, checked once against the shape that its study asks for.

``load_suite`` reads one by name (a built-in) or by path. Unknown keys, missing groups, empty sets and duplicate names
are errors that name the file and the field.

Prompt lists of other audits, FairPro's, MAGBIG's, BAFIS' and FAIRBench's, are read from their own files as they are:

=================================================== ===============================================================
file                                                how it is read
=================================================== ===============================================================
``fairpro_prompts.csv``                             FairPro (arXiv 2512.04981): its column ``occupation``; in a second
                                                    wording where ``prompts_occupations_rewrite.txt`` lies beside it.
                                                    Its other columns name a gender, an age or a race, so what they
                                                    draw is no choice of the model's, and they are left out.
``occ_LANGUAGE.csv``, ``adj_LANGUAGE.csv``          MAGBIG (ACL 2025): its columns ``name`` and ``prompt``; in a second
                                                    wording where the folder ``indirect:gender_neutral`` beside it has
                                                    the file too. The language is that of the file's name.
columns of languages, such as ``occupation,en,de``  BAFIS (2025), and MAGBIG as it stands on the Hugging Face Hub
                                                    (``id,en,de,it,…``): a concept a row, and each language a wording,
                                                    named by its tag. Any list of parallel prompts may have this form.
a YAML file with the key ``scenarios``               FAIRBench (the package fairbench-genai): a concept a scenario. Its
                                                    counterfactuals of gender that name men and women become the
                                                    groups' prompts, in pairs; its others are left out.
=================================================== ===============================================================

The groups, their prompts and words are those of the suite ``mcas``, in English, but for FAIRBench's own prompts.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from importlib.metadata import entry_points
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

from clinometer._messages import did_you_mean, named_in_a_line, quoted, shortened
from clinometer.errors import SuiteError
from clinometer.suites.base import Suite
from clinometer.suites.classification import ClassificationSuite
from clinometer.suites.editing import EditingSuite
from clinometer.suites.leaning import LeaningSuite
from clinometer.suites.steerability import SteerabilitySuite
from clinometer.suites.strict import SEVERAL_LANGUAGES, read_text, read_yaml
from clinometer.suites.t2iat import T2iatSuite
from clinometer.suites.undrawn import CountsSuite, WeatSuite

SHAPES: Final[dict[str, type[Suite]]] = {
    "leaning": LeaningSuite,
    "t2iat": T2iatSuite,
    "editing": EditingSuite,
    "classification": ClassificationSuite,
    "weat": WeatSuite,
    "counts": CountsSuite,
    "steerability": SteerabilitySuite,
}
"""The shape of a suite by its key ``study``."""

STUDIES: Final = "clinometer.studies"
"""The entry points of studies, those of other packages too: each names a record with a field ``suite``."""

SUITES: Final = "clinometer.suites"
"""The entry points of packages with suites."""

DEFAULT_STUDY: Final = "leaning"

_PACKAGE: Final = resources.files("clinometer.suites")

_EARLIER_NAMES: Final = {"association": "t2iat"}
"""What studies were called in suites and runs of earlier versions."""


def suite_names() -> list[str]:
    """Return the names of the built-in suites; those in a folder are named ``folder/suite``."""
    return sorted(_data_names(_PACKAGE / "data"))


def installed_suites() -> dict[str, Traversable]:
    """Return the files of other packages' suites by name: the entry point's name, a slash, and the file's.

    An entry point in the group ``clinometer.suites`` names a package that holds YAML files. One that cannot be imported
    has none.
    """
    suites: dict[str, Traversable] = {}
    for point in entry_points(group=SUITES):
        with suppress(Exception):  # importing a package runs it
            folder = resources.files(point.value)
            suites |= {name: folder.joinpath(f"{name.partition('/')[2]}.yaml")
                       for name in _data_names(folder, f"{point.name}/")}  # fmt: skip
    return suites


def _data_names(folder: Traversable, prefix: str = "") -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _data_names(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".yaml"):
            yield prefix + entry.name.removesuffix(".yaml")


def write_scaffold(file: str | Path) -> None:
    """Write a suite to begin with: whole, commented, and in words that the reference model knows.

    Raises
    ------
    SuiteError
        The file is there already, or cannot be written.
    """
    path, text = Path(file), (_PACKAGE / "scaffold.yaml").read_text(encoding="utf-8")
    try:
        with path.open("x", encoding="utf-8", newline="") as written:
            written.write(text)
    except FileExistsError as error:
        raise SuiteError.already_exists(f"{path}: it is there already; give another file") from error
    except (OSError, ValueError) as error:
        raise SuiteError.storage(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from error


def load_suite(suite: str | Path | Suite) -> Suite:
    """Read a built-in suite by name, a suite file by path, an installed package's by name, or another audit's list.

    See the module for these lists.

    Raises
    ------
    SuiteError
        There is no such suite, or it says something it must not: the message names the file and the field.
    """
    if isinstance(suite, Suite):
        return suite
    if str(suite) in suite_names():
        return _built_in(str(suite))
    path = Path(suite)
    try:
        if path.suffix.lower() == ".csv":
            return suite_from_mapping(suite_from_list(path, _groups_of_mcas()), source=str(path))
        data = read_yaml(text := read_text(path), source=str(path))
        if "scenarios" in data and "study" not in data:
            data, text = suite_from_scenarios(data, _groups_of_mcas(), source=str(path)), ""
        read = suite_from_mapping(data, source=str(path), text=text)
        if read.reference is not None:  # of a quick look at few concepts it may have none
            read.reference.require_fit(read.concept_names(), f"{path}, reference")
        return read
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        installed = installed_suites()
        if (name := str(suite)) in installed:
            return suite_from_text(installed[name].read_text(encoding="utf-8"), source=f"suite {name}")
        name, known = shortened(name, 200), [*suite_names(), *installed]
        hint = " ".join(filter(None, (did_you_mean(name, known, most=3), '"clinometer suites" lists them')))
        raise SuiteError.unknown_name(f"no suite named {name!r}: it is neither a file nor built in; {hint}") from error
    except (OSError, ValueError) as error:  # a NUL in its name is a ValueError, as is what is no UTF-8
        raise SuiteError.not_text(f"{path}: cannot be read as text: {error}") from error


@cache
def _built_in(name: str) -> Suite:
    """Return a suite of the package, parsed once: a suite does not change."""
    return suite_from_text(
        _PACKAGE.joinpath("data", f"{name}.yaml").read_text(encoding="utf-8"), source=f"suite {name}"
    )


def _groups_of_mcas() -> dict[str, Any]:
    return load_suite("mcas").model_dump(include={"groups", "axis"})


def suite_from_text(text: str, *, source: str) -> Suite:
    """Parse and check a suite. ``source`` is what an error calls it."""
    return suite_from_mapping(read_yaml(text, source=source), source=source, text=text)


def suite_from_mapping(data: dict[str, Any], *, source: str, text: str = "") -> Suite:
    """Check a suite that is already a mapping. Without the key ``study`` it is a leaning study.

    ``source`` is what an error calls it, ``text`` the YAML that it was read from, whose lines the error names.
    """
    study = data.get("study", DEFAULT_STUDY)
    shape: type[Suite] | None = None
    if isinstance(study, str):
        if study in _EARLIER_NAMES:
            study = _EARLIER_NAMES[study]
            data = data | {"study": study}
        shape = SHAPES.get(study) or next(
            (entry.load().suite for entry in entry_points(group=STUDIES, name=study)), None
        )
    if shape is None:
        studies = dict.fromkeys([*SHAPES, *(entry.name for entry in entry_points(group=STUDIES))])
        raise SuiteError.unknown_name(f"{source}: study: found {quoted(study)}, expected one of {', '.join(studies)}")
    return shape.checked(data, source=source, text=text)


LANGUAGES: Final = {
    "arabic": "ar", "chinese": "zh", "english": "en", "french": "fr", "german": "de", "italian": "it", "japanese": "ja",
    "korean": "ko", "russian": "ru", "spanish": "es",
}  # fmt: skip
"""Languages of MAGBIG's files, by their names."""

_TAG: Final = re.compile(r"[a-z]{2}(-[A-Za-z0-9]{2,8})*")
"""What a column of a language is called."""

PARALLEL: Final = "Parallel prompts"
NAMES: Final = ("occupation", "id", "prompt", "name", "concept")
"""What the column of names is called in a list with columns of languages; ``prompt`` in MAGBIG's first version."""

REWRITTEN: Final = "prompts_occupations_rewrite.txt"
INDIRECT: Final = "indirect:gender_neutral"
FAIRPRO: Final = "FairPro"
MAGBIG: Final = "MAGBIG"
_SOURCES: Final = {
    FAIRPRO: "Park et al. (2025), arXiv 2512.04981, github.com/nahyeonkaty/fairpro; groups of the suite mcas.",
    MAGBIG: "Friedrich et al. (2025), MAGBIG, github.com/felifri/MAGBIG; groups of the suite mcas, in English.",
    PARALLEL: "A list of parallel prompts, such as BAFIS' or MAGBIG's; groups of the suite mcas, in English.",
}


def suite_from_list(path: Path, groups: Mapping[str, Any]) -> dict[str, Any]:
    """Read a list as the mapping of a suite; ``groups`` : the keys ``groups`` and ``axis`` of a leaning suite.

    Raises
    ------
    SuiteError
        It is no such list, or a row lacks something: the message names the file, the line and the column.
    """
    rows = _rows(path)
    columns = list(rows[0][1]) if rows else []
    name = next((column for column in columns if column in NAMES), "")
    header = f"{path}: line 1: found the columns {named_in_a_line(columns)}"
    if languages := [column for column in columns if column != name and _TAG.fullmatch(column)]:
        if not name:
            raise SuiteError.missing(
                f"{header}; the names of the concepts are missing: expected a column {', '.join(NAMES)}"
            )
        if odd := next((column for column in columns if column not in (name, *languages)), ""):
            raise SuiteError.unknown_name(
                f"{header}; {odd!r} is no language tag such as en or zh-Hant: rename it, or leave it out"
            )
        audit, language = PARALLEL, languages[0] if len(languages) == 1 else SEVERAL_LANGUAGES
        wordings = {tag: _column(path, rows, name, tag) for tag in languages}
    elif "occupation" in columns:
        audit, language, wordings = FAIRPRO, "en", _of_fairpro(path, rows)
    elif {"name", "prompt"} <= set(columns):
        audit, (language, wordings) = MAGBIG, _of_magbig(path, rows)
    else:
        raise SuiteError.missing(
            f"{header}; expected occupation (FairPro), name and prompt (MAGBIG), or a name and languages by their "
            "tags, such as occupation, en, de (BAFIS)"
        )
    first, *others = wordings.values()
    targets = [
        {"name": name, "wordings": {wording: prompts[name] for wording, prompts in wordings.items()}}
        if others
        else {"name": name, "prompt": prompt}
        for name, prompt in first.items()
    ]
    return {
        "name": path.stem, "title": f"{audit}: {path.stem}", "language": language, "source": _SOURCES[audit],
        "description": f"{len(first)} prompts that {path.name} lists, in {' and '.join(wordings)}"
        f"{'' if audit == PARALLEL else ' wording'}.",
        **groups, "categories": {"listed": {"label": "As listed", "targets": targets}},
    }  # fmt: skip


FAIRBENCH: Final = "FAIRBench"
GENDERS: Final = {"man": ("male", "man", "men"), "woman": ("female", "woman", "women")}
"""What a counterfactual of gender may call the groups of ``mcas``."""


def suite_from_scenarios(data: Mapping[str, Any], groups: Mapping[str, Any], *, source: str) -> dict[str, Any]:
    """Read FAIRBench's scenarios as the mapping of a suite; ``groups`` : as in :func:`suite_from_list`.

    Raises
    ------
    SuiteError
        One lacks something: the message names the file, the scenario and the field.
    """
    scenarios = data["scenarios"]
    if not isinstance(scenarios, list) or not scenarios:
        raise SuiteError.too_few(f"{source}: scenarios: expected a list of one or more, each with id and prompt")
    targets, pairs = [], []
    for number, scenario in enumerate(scenarios):
        where = f"{source}: scenarios.{number}"
        if not isinstance(scenario, Mapping):
            raise SuiteError.wrong_type(f"{where}: expected a mapping with id and prompt")
        targets.append({"name": _text(scenario, "id", where), "prompt": _text(scenario, "prompt", where)})
        prompts = _genders(scenario, where)
        if prompts.keys() >= GENDERS.keys():
            pairs.append((targets[-1]["name"], prompts))
    whose = "It has no counterfactuals of men and women; the groups' prompts are those of the suite mcas"
    specs = groups["groups"]
    if pairs:
        whose = f"The groups' prompts are its counterfactuals of gender, {len(pairs)} pairs"
        specs = specs | {
            group: specs[group] | {"prompts": [{"pair": name, "prompt": prompts[group]} for name, prompts in pairs]}
            for group in GENDERS
        }
    name = str(data.get("name") or Path(source).stem)
    return {
        "name": name, "title": f"{FAIRBENCH}: {name}", "language": "en",
        "source": "FAIRBench (fairbench-genai), MIT; words of the groups are those of the suite mcas.",
        "description": f"{len(targets)} scenarios. {whose}; further counterfactuals are left out.",
        **groups, "groups": specs,
        "categories": {"scenarios": {"label": "Scenarios", "targets": targets}},
    }  # fmt: skip


def _text(entry: Mapping[str, Any], field: str, where: str) -> str:
    value = entry.get(field)
    if not isinstance(value, str) or not value.strip():
        raise SuiteError.wrong_type(f"{where}: {field}: found {value!r}, expected a text")
    return value.strip()


def _genders(scenario: Mapping[str, Any], where: str) -> dict[str, str]:
    """Return the prompts of a scenario that name men and women, by group."""
    prompts: dict[str, str] = {}
    for number, each in enumerate(scenario.get("counterfactuals") or []):
        at = f"{where}.counterfactuals.{number}"
        if not isinstance(each, Mapping) or not isinstance(each.get("variants"), list):
            raise SuiteError.wrong_type(f"{at}: expected a mapping with attribute and variants")
        for place, variant in enumerate(each["variants"] if each.get("attribute") == "gender" else ()):
            if not isinstance(variant, Mapping):
                raise SuiteError.wrong_type(f"{at}.variants.{place}: expected a mapping with prompt and value")
            prompt = _text(variant, "prompt", f"{at}.variants.{place}")
            prompts |= {name: prompt for name, values in GENDERS.items() if variant.get("value") in values}
    return prompts


def _rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    reader = csv.DictReader(
        io.StringIO(read_text(path).removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}"), newline=""), strict=True
    )
    try:
        return [(reader.line_num, {key: value or "" for key, value in row.items() if key}) for row in reader]
    except csv.Error as error:
        raise SuiteError.malformed(f"{path}: after line {reader.line_num}: not valid CSV: {error}") from error


def _column(path: Path, rows: Sequence[tuple[int, Mapping[str, str]]], name: str, prompt: str) -> dict[str, str]:
    """Return one prompt of each name."""
    prompts: dict[str, str] = {}
    for line, row in rows:
        for column in (name, prompt):
            if not row[column].strip():
                raise SuiteError.missing(f"{path}: line {line}: {column}: it is empty")
        key = row[name].strip()
        if key in prompts:
            raise SuiteError.duplicate(f"{path}: line {line}: {name}: {key!r} stands there twice; remove one")
        prompts[key] = row[prompt].strip()
    return prompts


def _of_fairpro(path: Path, rows: Sequence[tuple[int, Mapping[str, str]]]) -> dict[str, dict[str, str]]:
    prompts = _column(path, rows, "occupation", "occupation")
    named = {prompt.removeprefix("an ").removeprefix("a "): prompt for prompt in prompts}
    rewritten = path.parent / REWRITTEN
    if not rewritten.is_file():
        return {"occupation": named}
    lines = [line.strip() for line in read_text(rewritten).splitlines() if line.strip()]
    if len(lines) != len(named):
        raise SuiteError.wrong_shape(
            f"{rewritten}: found {len(lines)} prompts, expected one for each of the {len(named)} in {path.name}"
        )
    return {"occupation": named, "rewritten": dict(zip(named, lines, strict=True))}


def _of_magbig(path: Path, rows: Sequence[tuple[int, Mapping[str, str]]]) -> tuple[str, dict[str, dict[str, str]]]:
    language = next((tag for name, tag in LANGUAGES.items() if name in path.stem.lower().split("_")), "")
    if not language:
        raise SuiteError.unknown_name(
            f"{path}: its name tells no language; expected such as occ_german.csv, of {', '.join(LANGUAGES)}"
        )
    wordings = {"direct": _column(path, rows, "name", "prompt")}
    indirect = path.parent / INDIRECT / path.name
    if indirect.is_file():
        wordings["indirect"] = _column(indirect, _rows(indirect), "name", "prompt")
        if wordings["indirect"].keys() != wordings["direct"].keys():
            raise SuiteError.mismatch(f"{indirect}: it has other names than {path.name}; expected the same")
    return language, wordings
