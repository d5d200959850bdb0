"""The command line as a user meets it."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

import clinometer as cm
from clinometer.cli.app import app
from clinometer.errors import ClinometerError, Code, InvalidInputError, ModelError, RunNotFoundError
from tests import quick
from tests.builders import tiny_stable_diffusion
from tests.raising import raises
from tests.toys import Eye, Notes, Painter, toy_suite


def run(*arguments, cwd=None, **environment):
    return subprocess.run(
        [Path(sys.executable).parent / "clinometer", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "120", **environment},
        check=False,
    )


def shown_by(*arguments, columns=120):
    """What a command prints, within this process."""
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": str(columns)})
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def finished():
    return quick.finished(Painter(), toy_suite(), encoder=Eye(), report=True)


def test_help_names_every_command():
    shown = run("--help").stdout
    for command in ("audit", "score", "report", "import", "suites", "models"):
        assert command in shown
    assert run().stdout.strip() == shown.strip() == run("-h").stdout.strip()


def test_version():
    assert run("--version").stdout.strip() == cm.__version__


def test_nothing_heavy_is_imported_for_help():
    code = (
        "import sys, clinometer.cli.app; from typer.testing import CliRunner;"
        "CliRunner().invoke(clinometer.cli.app.app, ['audit', '--help']);"
        "heavy = ('torch', 'pandas', 'numpy', 'scipy', 'matplotlib', 'pyarrow');"
        "print([name for name in heavy if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_scipy_is_imported_by_what_needs_it():
    """Every command and every worker imports the pipeline; most of them compute no statistic."""
    code = (
        "import sys, clinometer.pipeline;"
        "heavy = ('torch', 'scipy.stats', 'scipy.special', 'scipy.optimize', 'skimage.color', 'matplotlib');"
        "print([name for name in heavy if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


MISTAKES = [
    (["audit", "--suite", "mcsa"], Code.UNKNOWN_NAME, "'mcsa'"),
    (["audit", "--model", "no-such-model"], Code.NOT_FOUND, "no-such-model"),
    (["audit", "--encoder", "no-such-encoder"], Code.NOT_FOUND, "no-such-encoder"),
    (["score", "nowhere"], Code.NOT_FOUND, "nowhere: "),
    (["report", "nowhere"], Code.NOT_FOUND, "nowhere: "),
    (["suites", "nowhere"], Code.UNKNOWN_NAME, "'nowhere'"),
    (["models", "nowhere"], Code.NOT_FOUND, "'nowhere'"),
    (["import", "nowhere", "-e", "reference"], Code.NOT_FOUND, "nowhere"),
]


@pytest.mark.parametrize(("arguments", "code", "name"), MISTAKES)
def test_a_mistake_ends_with_two_lines_at_most_and_no_traceback(cli, tmp_path, arguments, code, name):
    status, said = cli(*arguments)
    assert (status, cli.error.code) == (2, code)
    assert name in said
    assert "Traceback" not in said
    assert len(said.strip().splitlines()) <= 2
    assert os.listdir(tmp_path) == []  # a mistake leaves nothing behind


@pytest.mark.parametrize(
    ("arguments", "function", "said"),
    [
        (["audit"], "audit", "clinometer: stopped. The same command goes on from here.\n"),
        (["compare", "a", "b"], "compare", "clinometer: stopped.\n"),
    ],
)
def test_ctrl_c_ends_in_a_line(cli, monkeypatch, arguments, function, said):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"clinometer.api.{function}", stop)
    assert cli(*arguments) == (130, said)


def test_a_broken_suite_names_file_and_field(cli, tmp_path):
    (tmp_path / "mine.yaml").write_text("name: x\ntitle: y\ncolour: red\n")
    status, said = cli("audit", "--suite", "mine.yaml")
    assert (status, cli.error.code) == (2, Code.UNKNOWN_NAME)
    assert "mine.yaml: " in said


def test_score_and_report_work_on_a_finished_run(finished):
    shown = shown_by("score", finished.url)
    assert "concept 0.80" in shown
    assert "report.html" in shown
    result = CliRunner().invoke(app, ["report", finished.url], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    assert Path(result.stdout.split("Report: ")[1].strip()).exists()


@pytest.mark.thorough
def test_what_could_not_be_measured_has_its_reason_in_place_of_an_empty_table(tmp_path):
    nobody = quick.audit(Painter(refuse=" men"), toy_suite(), tmp_path / "run", encoder=Eye())
    shown = CliRunner().invoke(app, ["score", nobody.url], env={"COLUMNS": "120"}).output
    assert "Not measured: no image of group 'man'; draw or import some (4 concepts)." in shown
    assert "MCAS" not in shown
    assert "Not measured: no image of group &#39;man&#39;" in nobody._repr_html_()
    assert "<table>" not in nobody._repr_html_()
    some = quick.audit(Painter(refuse="lean 0.2"), toy_suite(), tmp_path / "some", encoder=Eye())
    shown = CliRunner().invoke(app, ["score", some.url], env={"COLUMNS": "120"}).output
    assert "Not measured: no image of the target (1 concept)." in shown
    assert "concept 0.80" in shown


@pytest.mark.parametrize(
    ("arguments", "code", "field", "words"),
    [
        (["plan", "--effect", "-1"], Code.OUT_OF_RANGE, "effect", "^--effect: .*-1"),
        (["audit", "--seed", "-1"], Code.OUT_OF_RANGE, "seed", "^--seed: .*-1"),
        (["audit", "--model", "PIPELINE", "--guidance", "inf"], Code.NOT_FINITE, "guidance_scale",
         "^--guidance: .*inf"),
        (["audit", "--model", "PIPELINE", "--offload", "x", "--device", "cpu"], Code.UNKNOWN_NAME, "offload",
         "^--offload: .*'x'"),
        (["audit", "--model", "PIPELINE", "--lora", "nothing"], Code.NOT_FOUND, "lora", "^--lora: .*'nothing'"),
        (["audit", "--model", "PIPELINE", "--price", "1"], Code.UNKNOWN_NAME, "price",
         "^--price: .*'diffusers'.* takes "),
        (["audit", "--model", "openai:x", "--lora", "x"], Code.UNKNOWN_NAME, "lora", "^--lora: .*'openai'.* takes "
         "--price, --base-url, --height, --width, --quality, --concurrency, --requests-per-minute, "
         "--trusted-host, --send-seed, --rewriter, --rewriter-prompt, --device"),
        (["audit", "--suite", "t2iat/reference", "--text-targets", "keyword"], Code.UNSUPPORTED, "text_targets",
         "^--text-targets: .*t2iat/reference.* takes --images"),
        (["audit", "--expression", "A"], Code.CONFLICT, "expression", "^--expression: .*'A', .*--portraits"),
        (["classify", "no-image", "--labels", "a, b"], Code.NOT_FOUND, (), "^no-image: "),
    ],
)  # fmt: skip
def test_a_mistake_names_the_option_as_it_is_typed(tmp_path_factory, arguments, code, field, words):
    pipeline = tmp_path_factory.mktemp("models") / "tiny-sd"
    if "PIPELINE" in arguments:
        tiny_stable_diffusion(pipeline)
    arguments = [str(pipeline) if word == "PIPELINE" else word for word in arguments]
    with raises(ClinometerError, code=code, field=field, match=words) as raised:
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert "_" not in str(raised.value).replace(str(pipeline), "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["audit", "--images", "0"], "--images: expected at least 1, found '0'"),
        (["plan", "--images", "many"], "--images: expected a whole number, found 'many'"),
        (["audit", "--lora-scale", "x"], "--lora-scale: expected a number, found 'x'"),
        (["serve", "--port", "70000"], "--port: expected at most 65535, found '70000'"),
    ],
)
def test_a_number_that_an_option_does_not_take_is_told_in_our_words(arguments, said):
    with raises(InvalidInputError, code=Code.MALFORMED, match=f"^{said}"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ModelError("no such option", field="steps", takes=[]), "--steps: no such option; it takes none"),
        (ModelError("no such option", field="steps", takes=["style", "width"]),
         "--steps: no such option; it takes --width"),
        (ModelError("no such option", field="steps", takes=["style"]), "--steps: no such option; it takes none"),
        (ModelError("found one of them", field=("height", "width")), "--height and --width: found one of them"),
        (ModelError("found -1", field="prior_guidance_scale"), "--prior-guidance: found -1"),
        (ModelError("found 0", field="guidance_scale"), "--guidance: found 0"),
        (ModelError("mine.yaml: images: no"), "mine.yaml: images: no"),
        (ModelError("Python's alone", field="retries"), "retries: Python's alone"),
        (ModelError("no colon"), "no colon"),
    ],
)  # fmt: skip
def test_names_of_python_become_options(error, said):
    command = typer.main.get_command(app).commands["audit"]
    names = {option.name: max(option.opts, key=len) for option in command.params}
    assert error.in_words_of(names) == said
    assert pickle.loads(pickle.dumps(error)).in_words_of(names) == said  # as it comes from a worker


def test_a_directory_that_is_named_like_an_option_is_a_directory(cli, tmp_path):
    (tmp_path / "seed").mkdir()
    (tmp_path / "seed/mine.txt").write_text("mine")
    status, said = cli("audit", "--out", "seed")
    assert (status, cli.error.code) == (2, Code.MISMATCH)
    assert "seed: " in said
    assert "--seed" not in said


def test_a_budget_for_what_costs_nothing_is_said_to_limit_nothing(tmp_path):
    notes = Notes()
    quick.audit(Painter(), toy_suite(), tmp_path / "run", encoder=Eye(), budget=5, progress=notes)
    assert notes.messages == ["--budget 5: images of painter cost nothing, so it limits nothing"]


def test_suites_are_listed_and_shown():
    listed = shown_by("suites")
    for name in ("mcas", "xmcas", "reference"):
        assert name in listed
    assert "…" not in shown_by("suites", columns=80)  # every name whole, if on two lines
    shown = shown_by("suites", "mcas")
    assert "an image of a chief executive officer" in shown
    assert "husband" in shown


def test_models_are_listed():
    listed = shown_by("models")
    for name in ("reference", "open_clip", "transformers", "diffusers"):
        assert name in listed


def test_the_reference_card_shows_the_planted_truth():
    shown = shown_by("models", "reference")
    assert "firefighter" in shown
    assert "0.90" in shown
    assert "Twemoji" in shown
    assert "an audit of it has a right answer" in " ".join(shown.split())
    assert "MODEL_CARD.md" in "".join(shown.split())
    assert "{" not in shown
    assert len(shown.splitlines()) < 125


@pytest.mark.thorough
@pytest.mark.slow
def test_the_reference_model_is_audited_in_one_command(cli, tmp_path):
    status, said = cli("audit", "--images", "1", "--steps", "1", "--concepts", "1", "--resamples", "999")
    assert status == 0, said
    assert (tmp_path / "runs/reference-reference/report.html").exists()
    status, said = cli("audit", "--images", "1", "--steps", "2", "--concepts", "1", "--resamples", "999")
    assert (status, cli.error.code) == (2, Code.MISMATCH)
    assert "steps 1 → 2" in said
    assert "--out" in said


@pytest.mark.slow
def test_finished_images_are_imported(cli, tmp_path):
    folder = tmp_path / "made"
    folder.mkdir()
    lines = ["file,concept,group,prompt"]
    for index in range(5):
        Image.new("RGB", (32, 32), (60 * index, 90, 20)).save(folder / f"{index}.png")
    lines += [
        "0.png,CEO,,",
        "1.png,nurse,,",
        "2.png,,man,an image of a man",
        "3.png,,woman,an image of a woman",
    ]
    (folder / "manifest.csv").write_text("\n".join(lines))
    status, said = cli("import", "made", "--suite", "mcas", "-e", "reference", "--out", "run")
    assert status == 0, said
    scores = cm.open_run(tmp_path / "run").scores
    assert set(scores[scores.metric == "mcas"].concept) == {
        target.name for target in cm.open_run(tmp_path / "run").suite.targets
    }
    (folder / "manifest.csv").write_text("\n".join([*lines, "4.png,astronaut,,"]))
    status, said = cli("import", "made", "--suite", "mcas", "-e", "reference", "--out", "other")
    assert (status, cli.error.code) == (2, Code.UNKNOWN_NAME)
    assert "manifest.csv, line 6, concept: 'astronaut'" in said


def test_a_trace_merges_a_lora_as_its_run_did(monkeypatch, tmp_path):
    asked = {}

    def trace_run(run, **options):
        asked.update(options)
        raise RunNotFoundError("enough")

    monkeypatch.setattr(cm.api, "trace_run", trace_run)
    words = ["trace", str(tmp_path), "--lora", "x.safetensors", "--lora-scale", "0.5", "--lora-partly"]
    with pytest.raises(RunNotFoundError, match="enough"):  # the error that this test raises itself
        CliRunner().invoke(app, words, catch_exceptions=False)
    assert asked["model_options"] == {"lora": "x.safetensors", "lora_scale": 0.5, "lora_partly": True}
