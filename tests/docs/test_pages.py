"""Links resolve, commands exist with their options, the README's code runs, the citation file is whole."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.core import TyperGroup
from typer.main import get_command

import clinometer as cm
from clinometer.cli.app import app
from tests.docs.pages import PAGES, ROOT, blocks, name_of, page, sh_commands
from tests.toys import Eye, Painter, toy_suite

COMMANDS = get_command(app).commands
EXTRAS = tomllib.loads(page("pyproject.toml"))["project"]["optional-dependencies"]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
MADE_LATER = {"src/clinometer/models/reference/MODEL_CARD.md"}
"""Files that a build makes; the slow test wants them there."""


def anchors(text):
    """The anchors that a forge makes of the headings."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(path):
    """List the links of a page that lead nowhere."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in LINK.findall(text):
        file, _, anchor = target.partition("#")
        found = (path.parent / file).resolve() if file else path
        if target.startswith("http") or str(found.relative_to(ROOT)) in MADE_LATER:
            continue
        if not found.exists() or (anchor and anchor not in anchors(found.read_text(encoding="utf-8"))):
            yield f"{name_of(path)}: {target}"


def test_links_resolve():
    assert [link for path in PAGES for link in broken_links(path)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MADE_LATER))
def test_what_is_built_is_there(name):
    assert (ROOT / name).exists()


def require_command(program, *rest):
    """Require that a command exists and takes its options, by its own reading of them."""
    if program == "clinometer":
        name, *rest = rest
        command = COMMANDS[name]
        if isinstance(command, TyperGroup):
            name, *rest = rest
            command = command.commands[name]
        arguments = command.make_context(name, rest, resilient_parsing=False)
        assert arguments.params
    elif program == "make":
        assert re.search(rf"^{rest[0]}:", page("Makefile"), re.MULTILINE)
    elif program == "pip":
        for extras in re.findall(r"\[(.+?)\]", rest[-1]):
            assert set(extras.split(",")) <= set(EXTRAS)
        assert "-c" not in rest or (ROOT / rest[rest.index("-c") + 1]).exists()
    elif program == "export":
        variable = rest[0].partition("=")[0]
        assert any(f'"{variable}"' in path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    elif program in ("inspect", "npx"):  # which tests/hosts runs
        assert set(rest[:2]) & {"eval", "view"}
    else:
        assert program == ".venv/bin/python"
        named = rest[1] if rest[0] == "-m" else rest[0]
        module = ROOT / f"{named.replace('.', '/')}.py"
        installed = named in {"pytest", "build", "twine", "cyclonedx_py"}
        assert installed or (ROOT / named).exists() or module.exists()


def test_commands_exist_with_their_options():
    wrong = []
    for path in PAGES:
        for words in sh_commands(path):
            try:
                require_command(*words)
            except Exception as error:  # as many as an option may be wrong in
                wrong.append(f"{name_of(path)}: {' '.join(words)}: {error!r}")
    assert wrong == []


def test_the_readme_opens_with_one_sentence_and_two_commands():
    title, sentence, *_ = page("README.md").split("\n\n")
    assert title == "# clinometer"
    assert "\n" not in sentence
    assert sentence.count(".") == 1
    first = [line.split("#")[0].strip() for line in blocks(page("README.md"), "sh")[0].splitlines()]
    assert first == ["make audit", "make test"]


def test_the_readmes_python_runs(tmp_path, monkeypatch, capsys):
    audit, metrics = blocks(page("README.md"), "python")
    monkeypatch.chdir(tmp_path)
    toys = {"model": Painter(), "suite": toy_suite(), "encoder": Eye()}
    real = cm.audit
    monkeypatch.setattr(cm, "audit", lambda model, suite, out: real(out=out, **toys), raising=False)
    exec(compile(audit, "README.md", "exec"), {})
    exec(compile(metrics, "README.md", "exec"), {})
    assert "concept 0.80" in capsys.readouterr().out


@pytest.mark.slow
def test_the_readmes_clinometer_commands_that_cost_nothing_run():
    for words in (["suites", "xmcas"], ["models", "reference"]):
        assert f"clinometer {' '.join(words)}\n" in page("README.md")
        subprocess.run([Path(sys.executable).parent / "clinometer", *words], check=True, capture_output=True)


def test_the_citation_file_is_whole():
    citation = yaml.safe_load(page("CITATION.cff"))
    assert {"cff-version", "message", "title", "authors", "version", "license", "references"} <= set(citation)
    assert citation["version"] == cm.__version__
    assert citation["license"] == "Apache-2.0"
    for reference in citation["references"]:
        assert {"type", "title", "authors"} <= set(reference)
        assert all(set(author) == {"family-names", "given-names"} for author in reference["authors"])


def test_the_changelog_has_its_form():
    headings = re.findall(r"^## (.+)$", page("CHANGELOG.md"), re.MULTILINE)
    assert all(re.fullmatch(r"\[Unreleased\]|\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", heading) for heading in headings)


def test_pages_are_short_of_nothing():
    """A title, no long lines but in tables and of one word, no emoji, nothing left to be written."""
    wrong = []
    for path in PAGES:
        text = re.sub(r"^---\n.*?\n---\n\n", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        if not (text.startswith("# ") and text.endswith("\n")):
            wrong.append(f"{name_of(path)}: no title, or no end of its last line")
        wrong += [f"{name_of(path)}: {found}" for found in re.findall(r"[\U0001F300-\U0001FAFF]|TODO|FIXME|XXX", text)]
        long = [line for line in text.splitlines() if len(line) > 120 and line[0] != "|" and " " in line[2:]]
        wrong += [f"{name_of(path)}: {line}" for line in long]
    assert wrong == []
