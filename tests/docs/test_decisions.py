"""Every decision has the same four parts, tests that exist and a line in the index; two are pinned here."""

import re

import pytest

from clinometer.models.protocols import Card
from clinometer.runs import NoProgress
from clinometer.suites import load_suite
from tests import quick
from tests.docs.pages import ROOT
from tests.toys import Eye, Painter, toy_suite

FOLDER = ROOT / "docs/decisions"
INDEX = FOLDER / "README.md"
PAGES = sorted(set(FOLDER.glob("*.md")) - {INDEX})


def test_decisions_have_their_parts_and_real_tests():
    wrong = []
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        parts = re.findall(r"^\*\*(.+?)\*\*", text, re.MULTILINE)
        if not text.startswith(f"# {path.stem[:4]} ") or parts != ["Problem.", "Choice.", "Consequences.", "Pinned by"]:
            wrong.append(f"{path.name}: its title or its parts: {parts}")
        named = re.findall(r"^- `(\S+)::(\w+)`$", text, re.MULTILINE)
        gone = [f"{file}::{test}" for file, test in named if f"\ndef {test}(" not in (ROOT / file).read_text("utf-8")]
        wrong += [f"{path.name}: {test}" for test in gone or ([] if named else ["no test"])]
    assert wrong == []


def test_decisions_are_numbered_without_gaps():
    assert [int(path.stem[:4]) for path in PAGES] == list(range(1, len(PAGES) + 1))


def test_the_index_lists_every_decision_with_its_title():
    rows = re.findall(r"^\| \[(\d{4})\]\((\S+)\) \| (.+?) \| (.+?) \|$", INDEX.read_text("utf-8"), re.MULTILINE)
    titles = [tuple(page.read_text("utf-8").split("\n", 1)[0][2:].split(" ", 1)) for page in PAGES]
    assert [(number, title) for number, _, title, _ in rows] == titles
    assert [name for _, name, _, _ in rows] == [page.name for page in PAGES]
    assert all(re.match(r"accepted|superseded by \[", status) for *_, status in rows)


def test_no_text_refers_to_a_decision_that_does_not_exist():
    numbers = {int(page.stem[:4]) for page in PAGES}
    gone = []
    for path in _texts():
        text = path.read_text("utf-8")
        named = re.findall(r"\bdecisions?\s+#?(\d+)\b|decisions/(\d{4})\b", text, re.IGNORECASE)
        gone += [f"{path.relative_to(ROOT)}: {a or b}" for a, b in named if int(a or b) not in numbers]
    assert gone == []


def _texts():
    """Yield the source files and pages that may refer to a decision."""
    for folder in ("src", "tests", "benchmarks", "docs", "reference"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".md", ".yaml", ".html"} and path != INDEX:
                yield path
    yield from ROOT.glob("*.md")


class Listener(NoProgress):
    def __init__(self):
        self.notes = []

    def note(self, message):
        self.notes.append(message)


@pytest.mark.parametrize(("model", "said"), [("reference", False), ("painter", True)])
def test_another_model_with_the_reference_encoder_is_told_so(tmp_path, model, said):
    listener, eye = Listener(), Eye()
    domain = {"about": "colours of the reference model", "models": ["reference"]}
    eye.card = Card(kind="encoder", name="reference", family="toy/eye", notes={"domain": domain})
    suite = toy_suite(target=2, attribute=2, concepts=2)
    quick.audit(Painter(name=model), suite, tmp_path / "run", encoder=eye, progress=listener)
    assert any("--encoder ViT-B-32/openai" in note for note in listener.notes) is said


def test_the_third_groups_prompts_mirror_the_others():
    groups = load_suite("xmcas").groups
    ours = {p.pair: p.prompt for p in groups["nonbinary"].prompts}
    for name in ("man", "woman"):
        assert {p.pair for p in groups[name].prompts} == set(ours)
    assert all("non-binary" in prompt for prompt in ours.values())
    assert groups["nonbinary"].words == ("non-binary person",)
