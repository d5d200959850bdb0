"""What somebody meets who types for the first time: mistakes in one line with a way out, and a suite to begin with."""

import json
import re

import pytest
import yaml

from clinometer.models import reference
from clinometer.readings.fit import unknown_words
from clinometer.suites import load_suite, suite_names


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["audits"], "there is no command 'audits'; did you mean audit?"),
        (["ratings", "nosuch"], "ratings: there is no command 'nosuch'; expected one of import, new, list"),
        (["--nosuch"], "there is no option --nosuch; see clinometer --help"),
        (["audit", "--concept", "3"], "audit: there is no option --concept; did you mean --concepts?"),
        (["score"], "score: RUN is missing; see clinometer score --help"),
        (["score", "a", "b"], "score: found 'b', more than it takes; see clinometer score --help"),
        (["mitigate", "reference"], "mitigate: --method is missing; see clinometer mitigate --help"),
        (["audit", "--images", "0"], "--images: expected at least 1, found '0'"),
        (["audit", "--images"], "audit: Option '--images' requires an argument; see clinometer audit --help"),
        (["import", "pictures"], "--encoder: found none; give one that knows such images, such as ViT-B-32/openai"),
        (["audit", "--dry-run", "--trace-steps", "5"], "--trace-steps: found 5, and no --trace; give both"),
        (["config", "audit", "--nosuch"], "audit: there is no option --nosuch; see clinometer audit --help"),
        (["config", "allow", "nofile"], "config allow: nofile cannot be read: No such file or directory"),
    ],
)
def test_a_mistyped_command_ends_in_one_line_with_the_way_out(cli, words, message):
    status, said = cli(*words)
    assert (status, said.count("\n")) == (2, 1)
    assert said.startswith(f"clinometer: {message}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["card", "runs/quik"], "runs/quik: not a run directory, it has no run.json; give the --out of an audit; "
                                "did you mean runs/quick?"),
        (["card", "runs/other"], "runs/other: not a run directory, it has no run.json; give the --out of an audit\n"),
        (["mitigate", "referense", "--method", "prompt", "--out", "m"], "no generator 'referense'"),
    ],
)  # fmt: skip
def test_a_mistyped_name_says_what_is_near(cli, words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "quick").mkdir(parents=True)
    (tmp_path / "runs" / "quick" / "run.json").write_text("{}")
    status, said = cli(*words)
    assert (status, said.startswith(f"clinometer: {message}")) == (2, True), said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]


def test_a_file_and_a_variable_are_named_where_an_option_comes_from_them(cli, tmp_path, monkeypatch):
    (tmp_path / "clinometer.toml").write_text("[audit]\nimages = 0\n")
    assert "clinometer.toml: audit.images: expected at least 1" in cli("audit")[1]
    (tmp_path / "clinometer.toml").unlink()
    monkeypatch.setenv("CLINOMETER_AUDIT_IMAGES", "0")
    assert "CLINOMETER_AUDIT_IMAGES: expected at least 1" in cli("audit")[1]


def test_config_shows_what_stands_for_an_option_that_is_not_given(cli):
    assert cli("config", "audit", "--images", "5", "--json")[0] == 0
    rows = {row["option"]: row for row in json.loads(cli.printed)["tables"][0]["rows"]}
    assert rows["--images"] | {"command": ""} == {"command": "", "option": "--images", "value": 5,
                                                  "from": "command line"}  # fmt: skip
    assert rows["--model"]["value"] == "reference"
    assert rows["--steps"]["value"] == "the model's"


def test_config_of_a_group_shows_the_options_of_its_commands(cli):
    cli("config", "ratings")
    assert "ratings new" in cli.printed
    assert "ratings export" in cli.printed


def test_a_new_suite_loads_in_words_of_the_reference_model_and_is_not_written_over(cli, tmp_path):
    assert cli("suites", "--new", "mine.yaml") == (0, "")
    suite = load_suite(tmp_path / "mine.yaml")
    card = {"notes": {"domain": reference.domain()}}
    assert not unknown_words(card, [*suite.texts(), *(spec.prompt for spec in suite.prompt_specs())])
    assert suite.image_count == 4 * 20 + 4 * 32
    before = (tmp_path / "mine.yaml").read_bytes()
    status, said = cli("suites", "--new", "mine.yaml")
    assert (status, said) == (2, "clinometer: mine.yaml: it is there already; give another file\n")
    assert (tmp_path / "mine.yaml").read_bytes() == before
    assert cli("suites", "--new", "no/folder.yaml")[0] == 2
    assert cli("suites", "mcas", "--new", "other.yaml")[0] == 2
    assert not (tmp_path / "other.yaml").exists()


def test_names_of_suites_are_whole_in_eighty_columns(monkeypatch, capsys):
    from clinometer.cli import console

    real = console.Console
    monkeypatch.setattr(console, "Console", lambda: real(width=80, force_terminal=True, no_color=True))
    console.print_suites()
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= 80
    assert {line.split()[0] for line in lines if line.strip()} >= set(suite_names())


def wrong_suite(count):
    """A suite with so many wrong prompts, one a line from line 9 on."""
    good = load_suite("mcas").model_dump(mode="json", include={"groups", "axis"}, exclude_none=True)
    head = yaml.safe_dump({"name": "s", "title": "t", "description": "d"}, sort_keys=False)
    targets = "".join(f"      - {{name: n{k}, prompt: {k}}}\n" for k in range(count))
    return f"{head}categories:\n  c:\n    targets:\n{targets}{yaml.safe_dump(good)}"


def test_mistakes_of_a_suite_are_told_ten_at_a_time_with_their_lines(cli, tmp_path):
    (tmp_path / "one.yaml").write_text(wrong_suite(1))
    place = "categories.c.targets.0.prompt: expected a text, found 0; put it in quotes (line 7)"
    assert cli("suites", "one.yaml") == (2, f"clinometer: one.yaml: {place}\n")
    (tmp_path / "many.yaml").write_text(wrong_suite(13))
    status, said = cli("suites", "many.yaml")
    lines = said.splitlines()
    assert (status, lines[0], lines[1], lines[-1]) == (2, "clinometer: many.yaml: 13 problems", f"  {place}",
                                                       "  and 3 more")  # fmt: skip
    assert len(lines) == 12


def test_a_missing_entry_is_told_once(cli, tmp_path):
    (tmp_path / "s.yaml").write_text(wrong_suite(1).replace(", prompt: 0", ""))
    assert cli("suites", "s.yaml")[1] == "clinometer: s.yaml: categories.c.targets.0.prompt: it is missing (line 7)\n"


def test_a_name_that_a_check_of_the_whole_suite_refuses_has_its_line(cli, tmp_path):
    text = wrong_suite(1).replace("prompt: 0", "prompt: x").replace("b: woman", "b: women")
    (tmp_path / "s.yaml").write_text(text)
    line = next(number for number, each in enumerate(text.splitlines(), 1) if "b: women" in each)
    assert cli("suites", "s.yaml")[1].endswith(f"did you mean woman? (line {line})\n")
