"""The commands of the pages run, in the order in which a page gives them.

Models and encoders that are not here stand as toys, audits end before they draw (``--dry-run``), and what they would
have made is a finished run of the tests. A command that differs from one that ran only in the names of runs is not run
again. Commands that start or ask servers, or read files of the reader's own, run in the tests of these commands; that
all exist with their options is told by ``test_pages``, and the examples of docs/cli.md are read in ``tests/cli``.
"""

import re
import shutil

import pytest
from PIL import Image

import clinometer as cm
from clinometer.models import registry
from clinometer.suites import load_suite
from tests.cli.conftest import cli
from tests.docs.pages import PAGES, ROOT, blocks, name_of, page, sh_commands
from tests.toy_denoisers import ClassifyingPainter
from tests.toy_editing import Recolourer
from tests.toys import Eye

__all__ = ["cli"]
pytestmark = pytest.mark.usefixtures("shortcuts_of_a_module")
RUNS = ROOT / "tests/fixtures/runs"
SERVED = ("openai:", "chat:", "gemini:")
RUN_HERE = {"audit", "score", "report", "compare", "gate", "card", "export", "verify", "plan", "suites", "models"}
ELSEWHERE = ("--paper", "--format", "--registration", "my-edits.yaml", "./my-model", "s3://bucket/run", "stripes:4")
"""What a command names that is not here; ``./my-model`` only after ``models``, as audits take a toy in its place."""
HUB_ID = re.compile(r"[A-Za-z0-9-]+/[\w.-]+")
NAMES_OF_RUNS = re.compile(r"runs/.*|RUN|comparison|paper/|evidence/.*|/shared/.*")


class Toy(ClassifyingPainter, Recolourer):
    """A model that can do whatever a suite asks, and takes every setting."""

    def __init__(self, spec, settings):
        super().__init__(name=spec)
        self.card.settings.update({name: value for name, value in settings.items() if name != "prefer"})

    def with_settings(self, **settings):
        return type(self)(self.card.name, self.card.settings | settings)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that is scored and has its page."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    shutil.copytree(RUNS / "leaning", folder)
    cm.score_run(folder, resamples=999)
    return folder


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Let every model and encoder be a toy, but for those behind a server, which are asked nothing."""
    real = registry.load_generator

    def load(spec, **options):
        return real(spec, **options) if spec.startswith(SERVED) else Toy(spec, options)

    monkeypatch.setattr("clinometer.pipeline.recipes.load_generator", load)
    monkeypatch.setattr("clinometer.pipeline.recipes.load_encoder", lambda spec, **_: Eye(spec))
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "none")
    (tmp_path / "fairface").mkdir()  # a reader's folder, which a dry run looks for and does not open
    for faces in ("CFD", "FACES"):
        (tmp_path / faces).mkdir()
        for code in ("AF", "AM", "BF", "BM", "LF", "LM", "WF", "WM"):
            Image.new("RGB", (16, 16), "white").save(tmp_path / faces / f"CFD-{code}-001-001-N.png")
    standard = blocks(page("docs/standards.md"), "csv")[0]
    (tmp_path / "standard.csv").write_text(f"{standard}\nconcept 0.20,man,0.2,,,,,\n")
    suites = blocks(page("docs/suites.md"), "yaml")
    (tmp_path / "my-suite.yaml").write_text(suites[0])
    (tmp_path / "languages.yaml").write_text(next(each for each in suites if each.startswith("name: languages")))
    (tmp_path / "labelled").mkdir()
    for group in ("man", "woman"):
        Image.new("RGB", (16, 16), "white").save(tmp_path / "labelled" / f"{group}.png")
    (tmp_path / "labelled/labels.csv").write_text("file,group\nman.png,man\nwoman.png,woman\n")
    return tmp_path


@pytest.fixture(scope="module")
def ran():
    """What ran already, in any page."""
    return set()


def runs_here(name, words):
    """Return whether a command can run here: all that it names is here, and ``models`` asks no hub."""
    if name == "models" and any(HUB_ID.fullmatch(word) for word in words):
        return False
    if "--four-fifths" in words:  # of shares as readers read them, and no reader has read the run that is here
        return False
    return name in RUN_HERE and not any(word in ELSEWHERE and (name, word) != ("audit", "./my-model") for word in words)


def lay_out(place, finished, name, words):
    """Put what a command names where it looks for it."""
    differs = "- {difference: magnitude, at_most: 0.05}\n" if "--baseline" in words else ""
    if "--history" in words:  # a folder of runs, of which one is there
        differs += "- {metric: mcas, component: image_part, against: history}\n"
        shutil.copytree(finished, place / words[words.index("--history") + 1] / "one", dirs_exist_ok=True)
    (place / "gate.yaml").write_text(f"rules:\n- {{metric: mcas, within: 0.3}}\n{differs}")
    if "--new" in words:  # which writes what the page's other commands read
        (place / words[words.index("--new") + 1]).unlink(missing_ok=True)
    for word in words:
        folder = place / word
        if name == "audit" and word.startswith("./") and not folder.suffix:  # a model's, whose name is looked for
            folder.mkdir(exist_ok=True)
        if name != "audit" and NAMES_OF_RUNS.fullmatch(word) and not folder.exists() and word[:3] in ("run", "RUN"):
            shutil.copytree(finished, folder)
    if "downstream/portrait-edits" in words:  # whose groups have no codes of the Chicago Face Database
        rows = ["file,group"]
        for group in load_suite("downstream/portrait-edits").groups:
            Image.new("RGB", (16, 16), "white").save(place / "FACES" / f"{group}.png")
            rows.append(f"{group}.png,{group}")
        (place / "FACES/manifest.csv").write_text("\n".join(rows))


@pytest.mark.thorough
@pytest.mark.parametrize("path", [path for path in PAGES if path.stem != "cli"], ids=name_of)
def test_the_commands_run(path, place, finished, ran, cli):
    wrong = []
    for program, name, *words in sh_commands(path):
        asked = (name, *("RUN" if NAMES_OF_RUNS.fullmatch(word) else word for word in words))
        if program != "clinometer" or not runs_here(name, words) or asked in ran:
            continue
        ran.add(asked)
        lay_out(place, finished, name, words)
        status, said = cli(name, *words, *(["--dry-run"] if name == "audit" else []))
        if status not in ((0, 1, 3) if name == "gate" else (0,)):
            wrong.append(f"{name} {' '.join(words)}: {status} {said}")
    assert not wrong, "\n".join(wrong)
