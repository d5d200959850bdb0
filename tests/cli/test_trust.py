"""What somebody else's folder may set, and what it may only where the user has allowed it by name."""

import json

import pytest
import typer

from clinometer.cli.app import app
from clinometer.cli.config import GUARDED, HARMLESS, MODELS, is_harmless, own_folder
from clinometer.errors import ClinometerError, Code
from tests.builders import tiny_stable_diffusion
from tests.quick import thorough_but

ROOT = typer.main.get_command(app)


def options(group=ROOT, before=()):
    """Every option of every command, as (command, option)."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from options(command, (*before, name))
        else:
            yield from (
                (" ".join((*before, name)), each.name)
                for each in command.params
                if each.param_type_name == "option" and not each.is_eager
            )


def test_every_option_is_classified_once():
    found = set(options())
    names, places = {name for _, name in found}, {f"{command} {name}" for command, name in found}
    assert names <= HARMLESS | GUARDED | MODELS, "say in cli/config.py whether a folder's file may set a new option"
    assert not (HARMLESS | GUARDED | MODELS) - names - places, "an option that there is no longer"
    assert not HARMLESS & GUARDED
    assert not MODELS & (HARMLESS | GUARDED)


@pytest.mark.parametrize("name", ["base_url", "trust_remote_code", "unchecked", "within", "host", "log_file", "lora"])
def test_what_the_issue_names_is_guarded(name):
    assert not any(is_harmless(command, name, "x") for command, option in options() if option == name)


def test_a_model_is_harmless_by_name_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("reference", "stabilityai/sd-turbo", ["RN50/openai", "reference"]):
        assert is_harmless("audit", "model", name)
    (tmp_path / "stabilityai").mkdir()
    (tmp_path / "stabilityai/sd-turbo").symlink_to("nowhere")
    for name in ("stabilityai/sd-turbo", "./model", "/model", "~/model", "../a", "openai:gpt-image-1", "plug-in",
                 "model.safetensors", ["reference", "./x"]):  # fmt: skip
        assert not is_harmless("audit", "model", name)


@pytest.fixture
def asked(monkeypatch):
    """What commands ask of the API: the function's name and its arguments."""
    from clinometer import api

    found = []

    def note(name):
        def called(*given, **more):
            found.append((name, given, more))
            raise ClinometerError("enough")

        return called

    for name in ("audit", "sweep", "mitigate"):
        monkeypatch.setattr(api, name, note(name))
    return found


def test_the_harmless_is_taken_and_said(cli, asked, tmp_path):
    (tmp_path / "clinometer.toml").write_text("[audit]\nimages = 5\ndevice = 'cpu'\nmodel = 'reference'\n")
    _, errors = cli("audit", "--device", "cuda")
    assert errors == "clinometer: from clinometer.toml: model = reference, images = 5\nclinometer: enough\n"
    ((_, _, more),) = asked
    assert (more["images"], more["device"]) == (5, "cuda")


@pytest.mark.parametrize("file", thorough_but(["clinometer.toml", "pyproject.toml"], "clinometer.toml"))
@pytest.mark.parametrize(
    ("content", "key", "command"),
    [
        ("[audit]\nbase-url = 'http://127.0.0.1:1/v1'", "audit.base-url", ("audit",)),
        ("[audit]\nmodel = ['./model']", "audit.model", ("audit",)),
        ("[audit]\ntrust_remote_code = 'x'", "audit.trust-remote-code", ("audit",)),
        ("log-file = 'x'", "log-file", ("suites",)),
        ("[serve]\nhost = '0.0.0.0'", "serve.host", ("serve",)),
        ("[gate]\nunchecked = true", "gate.unchecked", ("gate", "run")),
        ("[mitigate]\nmethod = 'a-plug-in'", "mitigate.method", ("mitigate", "reference", "--out", "x")),
        ("[ratings.remove]\nyes = true", "ratings.remove.yes", ("ratings", "remove", "1")),
    ],
)
def test_what_is_not_harmless_is_refused_until_it_is_allowed(cli, asked, tmp_path, file, content, key, command):
    section = "tool.clinometer." if file == "pyproject.toml" else ""
    content = content.replace("[", "[tool.clinometer.", 1) if section and content.startswith("[") else content
    content = f"[tool.clinometer]\n{content}" if section and not content.startswith("[") else content
    (tmp_path / file).write_text(content)
    status, errors = cli(*command)
    assert (status, asked, cli.error.code) == (2, [], Code.UNTRUSTED)
    assert errors.startswith(f"clinometer: {file}: {section}{key}: ")
    assert errors.endswith("clinometer config allow\n")
    assert not (tmp_path / "x").exists()
    cli("config")
    assert f"{section}{key}, not allowed" in cli.printed
    # allowed with the content that it has; a change takes that back, as does deny
    assert cli("config", "allow") == (0, "")
    assert "set by a file that is not allowed to" not in cli(*command)[1]
    (tmp_path / file).write_text(f"{content}\n")
    assert "set by a file that is not allowed to" in cli(*command)[1]
    assert cli("config", "allow") == cli("config", "deny") == (0, "")
    assert "set by a file that is not allowed to" in cli(*command)[1]


def test_the_command_line_the_environment_and_the_user_s_own_file_are_trusted(cli, asked, tmp_path, monkeypatch):
    (tmp_path / "clinometer.toml").write_text("[audit]\nbase-url = 'http://evil.example'\n")
    monkeypatch.setenv("CLINOMETER_AUDIT_MODEL", "openai:a")
    assert cli("audit", "--base-url", "http://mine.example")[1] == "clinometer: enough\n"
    monkeypatch.setenv("CLINOMETER_AUDIT_BASE_URL", "http://other.example")
    assert cli("audit")[1] == "clinometer: enough\n"
    (tmp_path / "clinometer.toml").write_text("[audit]\nimages = 7\n")
    monkeypatch.delenv("CLINOMETER_AUDIT_BASE_URL")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    own_folder().mkdir(parents=True)
    (own_folder() / "config.toml").write_text("[audit]\nimages = 3\nbase-url = 'http://u:secret-word@own.example'\n")
    _, errors = cli("audit")
    assert errors.splitlines()[0] == "clinometer: from clinometer.toml: images = 7"
    assert errors.splitlines()[1].startswith(f"clinometer: from {own_folder() / 'config.toml'}: base-url = http://")
    assert "secret-word" not in errors
    hosts = [more["model_options"]["base_url"] for _, _, more in asked]
    assert hosts == ["http://mine.example", "http://other.example", "http://u:secret-word@own.example"]
    assert [more["images"] for _, _, more in asked] == [None, None, 7]


def test_a_folder_cannot_silence_what_is_said_of_it(cli, tmp_path):
    (tmp_path / "clinometer.toml").write_text('quiet = true\n[plan]\nimages = 2\nsuite = "a\\u001b[2J"\n')
    errors = cli("plan")[1]
    assert errors.startswith(
        "clinometer: from clinometer.toml: suite = a\N{REPLACEMENT CHARACTER}[2J, images = 2, quiet"
    )
    assert cli("suites", "--quiet") == (0, "")


@pytest.mark.parametrize("content", ["a" * 600_000, "x = " + "[" * 100_000, "[audit", "\0"])
def test_a_file_that_is_none_is_a_line(cli, tmp_path, content):
    (tmp_path / "clinometer.toml").write_text(content)
    status, errors = cli("suites")
    assert (status, errors.count("\n")) == (2, 1)
    assert errors.startswith("clinometer: clinometer.toml: ")


def test_what_was_allowed_survives_damage(cli, tmp_path):
    own_folder().mkdir(parents=True, exist_ok=True)
    (own_folder() / "allowed.json").write_text("[1")
    (tmp_path / "clinometer.toml").write_text("log-file = 'x'\n")
    assert cli("suites")[0] == 2
    assert cli("config", "allow")[0] == 0
    assert cli("suites")[0] == 0
    assert [str(tmp_path / "clinometer.toml")] == list(json.loads((own_folder() / "allowed.json").read_text()))


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("options: {base_url: 'http://evil.example'}", "options.base_url"),
        ("options: {trust_remote_code: m}", "options.trust_remote_code"),
        ("options: {further: {a: 1}}", "options.further"),
        ("out: s3://bucket/sweep", "out"),
    ],
)
def test_a_sweep_s_file_is_held_to_the_same(cli, asked, tmp_path, line, key):
    (tmp_path / "sweep.yaml").write_text(f"axes: {{seed: [0, 1]}}\n{line}\n")
    status, errors = cli("sweep", "sweep.yaml")
    assert (status, asked, cli.error.code) == (2, [], Code.UNTRUSTED)
    assert errors.startswith(f"clinometer: sweep.yaml: {key}: ")
    assert errors.endswith("clinometer config allow sweep.yaml\n")
    assert cli("config", "allow", "sweep.yaml")[0] == 0
    cli("sweep", "sweep.yaml")
    (tmp_path / "other.yaml").write_text("axes: {seed: [0, 1]}\noptions: {height: 64}\nout: runs/x\n")
    cli("sweep", "other.yaml")
    assert len(asked) == 2


@pytest.mark.parametrize("declared", [["pipeline", "Custom"], "DiffusionPipeline"])
def test_a_local_folder_s_code_runs_only_where_the_user_says_so(cli, tmp_path, declared):
    folder = tmp_path / "model"
    tiny_stable_diffusion(folder)
    (folder / "pipeline.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nclass Custom: pass\n")
    index = json.loads((folder / "model_index.json").read_text())
    (folder / "model_index.json").write_text(json.dumps(index | {"_class_name": declared}))
    (tmp_path / "clinometer.toml").write_text(f"[audit]\nmodel = '{folder}'\ntrust-remote-code = '{folder}'\n")
    for words in (("audit",), ("audit", "--model", folder), ("audit", "--model", folder, "--suite", "reference")):
        assert cli(*words, "--concepts", "1", "--images", "2")[0] == 2
    assert cli("models", folder)[0] == 2
    assert not (tmp_path / "ran").exists()
