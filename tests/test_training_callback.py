"""Audits between the steps of a training: what is looked at, what is logged, and when it should stop."""

import json
import logging
import sys
import warnings

import numpy as np
import pytest

import clinometer as cm
from clinometer._torch import torch  # before diffusers, which imports torchvision
from clinometer.cli import main
from clinometer.errors import Code, GateError, InvalidInputError
from clinometer.stats.sequential import e_value
from clinometer.tracking.content import numbers_of
from clinometer.training import ALPHA, GATE_LEVEL, AuditCallback, Look
from tests import quick
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite

BROKEN = {"rules": [{"metric": "mcas", "component": "image_part", "at_most": -9}]}
KEPT = {"rules": [{"metric": "mcas", "component": "image_part", "within": 9}]}
AUDIT = """#!{python}
import json, os, shutil, sys, time
words = dict(word.lstrip("-").split("=", 1) for word in sys.argv[4:])
assert sys.argv[1:4] == ["-m", "clinometer", "audit"]
assert "RANK" not in os.environ
with open("{given}", "a") as file:
    file.write(json.dumps(words | {{"model_has": sorted(os.listdir(words["model"]))}}) + "\\n")
time.sleep(float(words.get("sleep", 0)))
if "fail" in words:
    sys.exit("clinometer: no such suite")
shutil.copytree("{run}", words["out"])
"""


class Pipeline:
    """Something that saves itself as diffusers' pipelines do."""

    def save_pretrained(self, folder):
        with open(f"{folder}/model_index.json", "w") as file:
            file.write("{}")


class Unsaved:
    def save_pretrained(self, folder):
        raise OSError(28, "No space left on device")


@pytest.fixture(scope="module")
def run():
    return quick.finished(Painter(), toy_suite(target=12, attribute=6), encoder=Eye())


@pytest.fixture
def given(run, tmp_path, monkeypatch):
    """Let a process that copies a finished run stand for an audit; what each was given."""
    stand_in, records = tmp_path / "python", tmp_path / "given.jsonl"
    stand_in.write_text(AUDIT.format(python=sys.executable, run=run.directory.place, given=records))
    stand_in.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(stand_in))
    monkeypatch.setenv("RANK", "0")
    return lambda: [json.loads(line) for line in records.read_text().splitlines()]


def test_a_look_is_an_audit_of_the_saved_model_with_noise_of_its_own(tmp_path, given, run):
    callback = AuditCallback(
        tmp_path / "looks",
        every=2,
        suite="mcas",
        images=3,
        encoder="eye",
        policy=KEPT,
        options=["--device=cpu"],
        seed=5,
    )
    assert [callback.on_step_end(step, Pipeline()) for step in range(5)] == [False] * 5
    first, second = given()
    assert (first["seed"], second["seed"]) == ("7", "9")
    assert first["model_has"] == ["model_index.json"]
    asked = {name: first[name] for name in ("suite", "images", "encoder", "device", "out")}
    assert asked == {"suite": "mcas", "images": "3", "encoder": "eye", "device": "cpu",
                     "out": str(tmp_path / "looks/step-000002")}  # fmt: skip
    assert callback.looks == [Look(2, "holds"), Look(4, "holds")]
    assert sorted(path.name for path in (tmp_path / "looks").iterdir()) == [
        "looks.json", "step-000002", "step-000002.log", "step-000004", "step-000004.log",
    ]  # fmt: skip
    saved = tmp_path / "checkpoint"
    saved.mkdir()
    callback.on_step_end(6, saved)
    assert given()[-1]["model"] == str(saved)
    assert saved.exists()


def test_broken_gates_stop_it_and_a_resumed_training_knows(tmp_path, given):
    callback = AuditCallback(tmp_path / "looks", every=1, policy=BROKEN)
    assert [callback.on_step_end(step, Pipeline()) for step in (1, 2)] == [False, True]
    assert callback.should_stop
    resumed = AuditCallback(tmp_path / "looks", every=1, policy=BROKEN)
    assert resumed.should_stop
    assert resumed.looks == callback.looks
    resumed.on_step_end(2, Pipeline())  # looked at before
    assert len(given()) == 2
    (tmp_path / "looks/looks.json").write_text("{}x")
    with raises(InvalidInputError, code=Code.MALFORMED, match=r"looks\.json"):
        AuditCallback(tmp_path / "looks", every=1)


@pytest.mark.parametrize(
    ("model", "options", "problem"),
    [
        (Pipeline(), ["--fail=1"], "status 1: clinometer: no such suite"),
        (Unsaved(), [], "it could not start: OSError: [Errno 28] No space left on device"),
        (Pipeline(), ["--sleep=60"], "it took more than 0.5 seconds"),
    ],
)
def test_an_audit_that_fails_is_told_once_and_stops_nothing(tmp_path, given, caplog, model, options, problem):
    callback = AuditCallback(
        tmp_path / "looks", every=1, policy=BROKEN, options=options, timeout=0.5 if "60" in str(options) else 60
    )
    with caplog.at_level(logging.WARNING, "clinometer"):
        assert [callback.on_step_end(step, model) for step in (1, 2)] == [False, False]
    assert [look.problem for look in callback.looks] == [problem] * 2
    assert [look.outcome for look in callback.looks] == ["", ""]
    assert [record.getMessage() for record in caplog.records] == [
        f"the audit of step 1 failed, and training goes on: {problem}; further failures are in "
        f"{tmp_path}/looks/looks.json"
    ]
    assert not [path for path in (tmp_path / "looks").iterdir() if path.name.startswith("tmp")]


def test_training_goes_on_beside_an_audit(tmp_path, given):
    callback = AuditCallback(tmp_path / "looks", every=1, policy=KEPT, options=["--sleep=0.5"], background=True)
    for step in range(1, 4):
        callback.on_step_end(step, Pipeline())
    assert callback.looks == []
    callback.finish()
    assert callback.looks == [Look(1, "holds")]
    assert len(given()) == 1


def test_trackers_of_accelerate_get_the_numbers_and_a_loop_ends(tmp_path, given, run):
    pytest.importorskip("accelerate")
    from accelerate import Accelerator
    from accelerate.tracking import GeneralTracker

    class Recorder(GeneralTracker):
        name, requires_logging_directory, tracker, logged = "recorder", False, None, []

        def log(self, values, step=None, **options):
            self.logged.append((step, values))

    accelerator = Accelerator(cpu=True, log_with=Recorder())
    accelerator.init_trackers("training")
    unet = torch.nn.Linear(4, 4)
    unet, optimizer = accelerator.prepare(unet, torch.optim.SGD(unet.parameters(), lr=0.1))
    callback = AuditCallback(tmp_path / "looks", every=2, policy=BROKEN, accelerator=accelerator)
    before = torch.random.get_rng_state()
    for step in range(1, 9):
        accelerator.backward(unet(torch.ones(2, 4)).square().mean())
        optimizer.step()
        optimizer.zero_grad()
        if callback.on_step_end(step, Pipeline()):
            break
    assert step == 4
    assert torch.equal(before, torch.random.get_rng_state())
    assert [step for step, _ in Recorder.logged] == [2, 4]
    rows = run.scores[
        (run.scores.metric == "mcas") & (run.scores.component == "image_part") & (run.scores.encoder == "mean")
    ]
    values = Recorder.logged[0][1]
    assert values == {f"clinometer/{name}": value for name, value in numbers_of(run).items()}
    for concept, value, low in zip(rows.concept, rows.value, rows.low, strict=True):
        assert (values[f"clinometer/image_part/{concept}"], values[f"clinometer/image_part/{concept}/low"]) == (
            value,
            low,
        )


def test_every_process_learns_what_the_main_one_found(tmp_path, given, monkeypatch):
    utils = pytest.importorskip("accelerate.utils")
    sent = []

    class Process:
        num_processes = 2

        def __init__(self, is_main_process):
            self.is_main_process = is_main_process

        def log(self, values, step):
            pass

    callbacks = [
        AuditCallback(tmp_path / "looks", every=1, policy=BROKEN, accelerator=Process(main)) for main in (True, False)
    ]
    for step in (1, 2):
        monkeypatch.setattr(utils, "broadcast_object_list", lambda found: sent.append(found) or found)
        main = callbacks[0].on_step_end(step, Pipeline())
        monkeypatch.setattr(utils, "broadcast_object_list", lambda found: sent[-1])
        assert callbacks[1].on_step_end(step, Pipeline()) == main == (step == 2)
    assert callbacks[1].looks == []
    assert len(given()) == 2


def test_a_model_that_keeps_its_limits_is_seldom_stopped_however_often_it_is_looked_at():
    """The chance that 80 looks ever say so, exactly: evidence rests on two counts, of gates and of broken ones."""

    def stops(looks, broken):
        values = np.r_[np.ones(broken), np.zeros(looks - broken)]
        return e_value(values, GATE_LEVEL, low=0.0, high=1.0, alternative="greater") >= 1 / ALPHA

    going, stopped = {0: 1.0}, 0.0
    for looks in range(1, 81):
        reached: dict[int, float] = {}
        for broken, chance in going.items():
            for more, one in ((0, 1 - GATE_LEVEL), (1, GATE_LEVEL)):
                reached[broken + more] = reached.get(broken + more, 0.0) + chance * one
        ends = {broken: stops(looks, broken) for broken in reached if reached[broken] > 1e-9}
        stopped += sum(reached[broken] for broken, end in ends.items() if end)
        going = {broken: reached[broken] for broken, end in ends.items() if not end}
    assert 0.01 < stopped <= ALPHA
    assert [next(k for k in range(1, 20) if stops(kept + k, k)) for kept in (0, 10, 50)] == [2, 5, 10]


def test_what_cannot_be_looked_at_is_refused_before_training(tmp_path):
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="every", match="found 0"):
        AuditCallback(tmp_path, every=0)
    with raises(InvalidInputError, code=Code.UNSUPPORTED, field="policy"):
        AuditCallback(tmp_path, every=1, policy={"rules": [{"difference": "mcas", "within": 1}]})
    with raises(GateError, code=Code.MISSING, match=r"rules\.0"):
        AuditCallback(tmp_path, every=1, policy={"rules": [{"metric": "mcas"}]})


class InThisProcess:
    """A command of clinometer, run here: torch and diffusers are imported already."""

    def __init__(self, command, *, stdout, **_):
        assert command[:3] == [sys.executable, "-m", "clinometer"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", command[2:])
            try:
                main()
                self.returncode = 0
            except SystemExit as end:
                self.returncode = end.code or 0

    def wait(self, timeout):
        return self.returncode

    def kill(self):
        pass


@pytest.mark.thorough
def test_a_pipeline_in_training_is_audited(tmp_path, monkeypatch):
    """Of the reference model, of which two steps are trained, with few pictures."""
    import yaml
    from accelerate import Accelerator
    from diffusers import StableDiffusionPipeline

    from clinometer.models import reference
    from tests.pipeline.reference_audits import few_targets

    monkeypatch.setattr("clinometer.training.subprocess.Popen", InThisProcess)
    monkeypatch.setattr("warnings.showwarning", warnings.showwarning)
    (tmp_path / "few.yaml").write_text(yaml.safe_dump(few_targets().model_dump(mode="json", exclude_none=True)))
    pipeline = StableDiffusionPipeline.from_pretrained(reference.pipeline_path())
    accelerator = Accelerator(cpu=True)
    unet, optimizer = accelerator.prepare(pipeline.unet, torch.optim.SGD(pipeline.unet.parameters(), lr=1e-3))
    callback = AuditCallback(
        tmp_path / "looks", every=2, suite=str(tmp_path / "few.yaml"), images=2, policy=KEPT, accelerator=accelerator,
        options=["--steps=1", "--resamples=99", "--device=cpu", "--no-report"],
    )  # fmt: skip
    text = torch.zeros(1, 4, pipeline.text_encoder.config.hidden_size)
    for step in (1, 2):
        noise = torch.randn(1, 4, 16, 16)
        accelerator.backward(unet(noise, torch.tensor([5]), text).sample.square().mean())
        optimizer.step()
        callback.on_step_end(step, pipeline)
    assert callback.looks == [Look(2, "undecided")], (tmp_path / "looks/step-000002.log").read_text()
    assert cm.open_run(tmp_path / "looks/step-000002").record["seed"] == 2
