"""Several workers, and one process: the same tables, bit for bit, whoever dies on the way."""

import os
import signal
import subprocess
import sys
import time
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import clinometer as cm
from clinometer.errors import Code, EngineError, ModelError
from clinometer.models.protocols import GenerationResult
from clinometer.pipeline.engines import Done, dispatch, open_engine
from clinometer.pipeline.engines.dispatch import LocalEngine
from clinometer.runs.embeddings import NoVectorsError
from tests import quick
from tests.pipeline.engine_toys import Broken, Deadly, audit, descendants, tables
from tests.raising import raises
from tests.toys import Eye, Notes, Painter, toy_suite

pytestmark = pytest.mark.usefixtures("kept_workers")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return audit(tmp_path_factory.mktemp("finished") / "run")


class Hasty(Painter):
    """Takes long for the first part that it draws in a process, so that parts end in another order."""

    def generate(self, requests):
        time.sleep(0.3 if self.drawn == 0 and os.getpid() % 2 else 0)
        return super().generate(requests)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_tables_do_not_depend_on_the_number_of_workers(tmp_path, finished, workers):
    run = audit(tmp_path / "run", model=Hasty(), workers=workers)
    assert_made_alike(run, finished)


@pytest.mark.thorough
@pytest.mark.slow
def test_as_many_workers_as_parts_make_the_same_tables(tmp_path):
    suite = toy_suite(target=3, attribute=2)
    here, run = (audit(tmp_path / str(n), model=Hasty(), suite=suite, workers=n) for n in (None, 3))
    assert len(run.parts) == 3
    assert_made_alike(run, here)


def assert_made_alike(run, finished):
    assert tables(run) == tables(finished)
    assert run.record["files"] == {  # each part is listed, with a seal of its own
        name: run.directory.seal(name) or run.record["files"][name] for name in finished.record["files"]
    }
    assert not list(Path(run.directory.root).glob(".leases*"))


def test_a_finished_run_starts_no_worker(tmp_path, finished, fresh_workers, monkeypatch):
    monkeypatch.setattr("clinometer.pipeline.engines.dispatch.ProcessPoolExecutor", None)
    audit(finished.url, workers=2)


def test_a_killed_worker_is_replaced(tmp_path, finished):
    (tmp_path / "deaths").mkdir()
    notes = Notes()
    run = audit(tmp_path / "run", model=Deadly("lean 0.20", 2, tmp_path / "deaths"), workers=2, progress=notes)
    assert tables(run) == tables(finished)
    died = [message for message in notes.messages if "died" in message]
    assert len(died) == 2  # whether the system still tells by what signal is a matter of who asks it first
    assert all(message.startswith("a worker died over part 0 (") for message in died)
    assert all(message.endswith("); another takes it") for message in died)


@pytest.mark.thorough
def test_a_part_that_kills_three_workers_is_reported_and_the_others_go_on(tmp_path, finished):
    (tmp_path / "deaths").mkdir()
    with raises(EngineError, code=Code.FAILED, field="engine", match=r"3 .*part 0 \(8 images\)"):
        audit(tmp_path / "run", model=Deadly("lean 0.20", 99, tmp_path / "deaths"), workers=2)
    assert len(list((tmp_path / "deaths").iterdir())) == 3
    stopped = cm.open_run(tmp_path / "run")
    assert [part for part in stopped.parts if not stopped.drawn.has(part)] == [0]
    assert tables(audit(tmp_path / "run", workers=2)) == tables(finished)


class DeadlyEye(Eye):
    """Kills the process that embeds a text, or an image, for the first time."""

    def __init__(self, place):
        super().__init__()
        self.place = place

    def die_once(self, name):
        if not (self.place / name).exists():
            (self.place / name).touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def encode_images(self, images):
        self.die_once("image")
        return super().encode_images(images)

    def encode_texts(self, texts):
        self.die_once("text")
        return super().encode_texts(texts)


@pytest.mark.thorough
def test_an_encoder_that_kills_its_worker_goes_on_in_another(tmp_path, finished):
    (tmp_path / "deaths").mkdir()
    run = audit(tmp_path / "run", encoder=DeadlyEye(tmp_path / "deaths"), workers=2)
    assert tables(run) == tables(finished)


SCRIPT = """
import sys
from tests import quick
from tests.toys import Eye, Painter, toy_suite
if __name__ == "__main__":
    quick.audit(Painter(halt=10), toy_suite(), sys.argv[1], encoder=Eye(), workers=2)  # in the second part of each
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_a_script_that_forgot_its_guard_is_told(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace('if __name__ == "__main__":', "if True:").replace("workers=2", "workers=1"))
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    ended = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "run")],
        cwd=root,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode != 0
    assert 'must start workers under `if __name__ == "__main__":`' in ended.stderr


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="lists processes in /proc")
def test_a_killed_driver_takes_its_workers_along_and_the_run_goes_on(tmp_path, finished):
    out, script = tmp_path / "run", tmp_path / "script.py"
    script.write_text(SCRIPT)
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    process = subprocess.Popen([sys.executable, str(script), str(out)], cwd=root, env=environment)
    while len(list(out.glob("samples/part-*.parquet"))) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    workers = descendants(process.pid)
    assert len(workers) >= 4  # two, and who imports for them, and who keeps their books
    process.kill()
    process.wait()
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        time.sleep(0.01)
    assert not (out / "scores.parquet").exists()
    assert list(out.glob(".leases/driver-*"))  # it died with it
    run = audit(out, workers=1)
    assert tables(run) == tables(finished)
    assert not list(out.glob(".leases*"))
    assert not list(out.rglob("*.tmp"))


class Sick(Painter):
    """Fails every image of prompts that hold a word."""

    def __init__(self, word):
        super().__init__()
        self.word = word

    def generate(self, requests):
        for request in requests:
            if self.word in request.prompt:
                yield GenerationResult(request.id, "failed", None, "the weights overflow")
            else:
                yield from super().generate([request])


@pytest.mark.thorough
def test_a_model_that_only_fails_is_stopped_over_all_workers(tmp_path, finished):
    with raises(ModelError, code=Code.FAILED, match="painter: 32 .*the weights overflow"):
        audit(tmp_path / "run", model=Sick(""), workers=2)
    assert tables(audit(tmp_path / "run", workers=2)) == tables(finished)


def test_a_part_of_failures_that_nobody_counted_yet_is_not_kept(tmp_path, finished):
    """One worker has written a part of failures when the model is stopped over the parts of another."""

    class Late(Backwards):
        def map(self, work, units):
            make = work.open()
            make(units[-1])
            for unit in units:
                yield Done(unit, make(unit))

    with raises(ModelError, code=Code.FAILED, match="images in a row failed"):
        audit(tmp_path / "run", model=Sick(""), engine=Late("", None))
    assert not list((tmp_path / "run").glob("samples/part-*"))
    assert tables(audit(tmp_path / "run")) == tables(finished)


def test_a_run_of_failures_alone_is_refused(tmp_path):
    suite = toy_suite(target=1, attribute=1, concepts=2)
    with raises(ModelError, code=Code.FAILED, match="all 8 images failed, .*: the weights overflow"):
        audit(tmp_path / "run", model=Sick(""), suite=suite, workers=2)


@pytest.mark.thorough
def test_failed_images_are_drawn_anew_by_workers_too(tmp_path, finished):
    sick = audit(tmp_path / "run", model=Sick("lean 0.40"), workers=2)
    assert (sick.samples.status == "failed").sum() == 6
    notes = Notes()
    run = audit(tmp_path / "run", workers=2, retry_failed=True, progress=notes)
    assert "6 failed images are drawn again" in notes.messages
    assert tables(run) == tables(finished)


@pytest.mark.thorough
def test_rounds_end_the_same(tmp_path):
    options = {"suite": toy_suite(target=6, margin=0.3), "images": 15, "until": "decided"}
    one, two = (audit(tmp_path / str(n), **options, **({"workers": n} if n else {})) for n in (0, 2))
    assert len(two.record["files"]) == len(one.record["files"])
    assert tables(one) == tables(two)


def test_what_a_model_raises_in_a_worker_is_told_in_its_line(tmp_path):
    with raises(ModelError, code=Code.FAILED, match="^generator painter: .*RuntimeError: no such layer") as raised:
        audit(tmp_path / "run", model=Broken(), workers=2)
    assert "\n" not in str(raised.value)


@pytest.mark.thorough
def test_an_encoder_that_gives_no_vectors_is_named_once_and_forgotten(tmp_path, finished):
    with raises(NoVectorsError, code=Code.NOT_FINITE) as raised:
        audit(tmp_path / "run", encoder=Eye(poison="images"), workers=2)
    assert str(raised.value).count("what is drawn is kept") == 1
    assert tables(audit(tmp_path / "run", workers=2)) == tables(finished)


def test_a_model_that_cannot_be_sent_is_told(tmp_path):
    model = Painter()
    model.secret = lambda: None
    with raises(EngineError, code=Code.FAILED, field="engine", match="give models by their names"):
        audit(tmp_path / "run", model=model, workers=2)


class Priced(Painter):
    price_per_image = 0.01


def test_a_model_with_a_price_is_asked_by_one_process(tmp_path, finished):
    model = Priced()
    run = audit(tmp_path / "run", model=model, budget=10, workers=2)
    assert model.drawn == len(run.plan)
    assert tables(run) == tables(finished)


class Stages(Notes):
    """Keeps how many items each stage had, and how many were done when it began."""

    def __init__(self):
        super().__init__()
        self.begun = {}

    def start(self, stage, total, done):
        self.begun[stage] = total, done


def test_images_are_imported_by_workers(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    rng = np.random.default_rng(0)
    from PIL import Image

    lines = ["file,concept,group,prompt"]
    for concept in ("concept 0.20", "concept 0.80"):
        for number in range(40):
            name = f"{concept[-4:]}-{number}.png"
            Image.fromarray(rng.integers(0, 255, (8, 8, 4), np.uint8), "RGBA").save(folder / name)
            lines.append(f"{name},{concept},,lean {concept[-4:]}")
    for group in ("man", "woman", "other"):
        for number in range(5):
            name = f"{group}-{number}.png"
            Image.fromarray(rng.integers(0, 255, (8, 8, 3), np.uint8)).save(folder / name)
            prompt = {"man": "young men", "woman": "young women", "other": "young others"}[group]
            lines.append(f"{name},,{group},{prompt}")
    (folder / "manifest.csv").write_text("\n".join(lines))
    suite, said, runs = toy_suite(concepts=4), [], []
    for workers in (None, 2):
        notes = Stages()
        out = tmp_path / f"run-{workers}"
        runs.append(quick.import_images(folder, out, suite=suite, encoder=Eye(), workers=workers, progress=notes))
        said.append(notes.messages)
        assert notes.begun["encoding with eye"] == (95, 95)  # all were embedded as they were read
    assert tables(runs[0]) == tables(runs[1])
    assert said[0] == said[1]
    assert any("converted as they were read" in message for message in said[0])


def test_a_table_of_images_is_imported_by_workers(tmp_path, finished):
    table = finished.samples[["concept", "group", "prompt"]].to_dict("list")
    images = [{"bytes": content, "path": None} for _, content in finished.images(finished.samples.id)]
    pq.write_table(pa.table(table | {"image": images}), tmp_path / "images.parquet")
    asked = {"suite": toy_suite(), "encoder": Eye()}
    here, there = (
        quick.import_images(tmp_path / "images.parquet", tmp_path / f"run-{n}", workers=n, **asked) for n in (None, 2)
    )
    assert tables(here) == tables(there)


@pytest.mark.thorough
def test_an_encoder_is_added_by_workers(tmp_path, finished, shortcuts):
    run = audit(tmp_path / "run")
    cm.score_run(run.url, encoder=Eye("other eye"), workers=2)
    here = audit(tmp_path / "here", encoder=[Eye(), Eye("other eye")])
    assert cm.open_run(run.url).scores.equals(here.scores)


class Counting(Eye):
    """Notes how many threads torch has in a worker."""

    def __init__(self, place):
        super().__init__()
        self.place = place

    def encode_images(self, images):
        self.note("images")
        return super().encode_images(images)

    def encode_texts(self, texts):
        self.note("texts")
        return super().encode_texts(texts)

    def note(self, what):
        from clinometer._torch import torch

        (self.place / what).write_text(str(torch.get_num_threads()))


@pytest.mark.parametrize(("said", "threads"), [(None, "1"), ("2", "2")])
def test_a_worker_computes_with_one_thread_unless_told_otherwise(tmp_path, fresh_workers, monkeypatch, said, threads):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if said is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", said)
    suite = toy_suite(target=1, attribute=1, concepts=2)
    audit(tmp_path / "run", suite=suite, encoder=Counting(tmp_path), workers=1)
    assert (tmp_path / "images").read_text() == threads
    assert (tmp_path / "texts").read_text() == "1"


class Rounding(Eye):
    """Embeds texts as a library does that adds in another order with more threads."""

    def encode_texts(self, texts):
        from clinometer._torch import torch

        return super().encode_texts(texts) * np.float32(1 + 1e-6 * torch.get_num_threads())


@pytest.mark.thorough
def test_texts_are_embedded_in_one_thread_with_and_without_workers(tmp_path, fresh_workers, monkeypatch):
    from clinometer._torch import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        here = audit(tmp_path / "here", encoder=Rounding())
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)
    for said, workers in (("1", 2), ("2", 1)):
        monkeypatch.setenv("OMP_NUM_THREADS", said)
        run = audit(tmp_path / said, encoder=Rounding(), workers=workers)
        assert_made_alike(run, here)
        assert {text: vector.tobytes() for text, vector in run.texts("eye").items()} == {
            text: vector.tobytes() for text, vector in here.texts("eye").items()
        }


class Backwards:
    """An engine of a plug-in: one worker, here, from the last part to the first."""

    workers = 1
    made: ClassVar[list[object]] = []

    def __init__(self, address, workers):
        self.address = address

    def map(self, work, units):
        make = work.open()
        for unit in reversed(units):
            self.made.append(unit)
            yield Done(unit, make(unit))

    def close(self):
        self.made.append(self.address)


def test_a_plug_in_brings_an_engine(tmp_path, finished, monkeypatch):
    point = EntryPoint("backwards", f"{__name__}:Backwards", "clinometer.engines")
    monkeypatch.setattr(
        "clinometer.pipeline.engines.entry_points", lambda group: [point] * (group == "clinometer.engines")
    )
    monkeypatch.setattr(point.__class__, "load", lambda self: Backwards)
    Backwards.made.clear()
    run = audit(tmp_path / "run", engine="backwards=over there")
    assert tables(run) == tables(finished)
    assert Backwards.made[0] == (len(run.parts) - 1,)
    assert Backwards.made[-1] == "over there"


@pytest.mark.parametrize(
    ("spec", "workers", "code", "field", "message"),
    [
        ("rai", None, Code.UNKNOWN_NAME, "engine", r"found 'rai'; did you mean ray\?"),
        ("local=here", None, Code.UNSUPPORTED, "engine", "no address, found 'here'"),
        ("local", 0, Code.OUT_OF_RANGE, "workers", r"found 0"),
    ],
)
def test_an_engine_that_is_none_is_named(spec, workers, code, field, message):
    with raises(EngineError, code=code, field=field, match=message):
        open_engine(spec, workers)


def test_one_process_is_opened_for_each_of_several_gpus(fresh_workers, monkeypatch):
    monkeypatch.setattr("clinometer.pipeline.engines.visible_gpus", lambda: ["4", "7"])
    engine = open_engine("local", None)
    assert isinstance(engine, LocalEngine)
    assert engine.workers == 2
    assert next(iter(engine.map(Seen(), [(0,)]))).result in ("4", "7")
    engine.close()
    assert open_engine("local", None, "cpu") is None
    assert open_engine("local", None, "cuda:1") is None
    monkeypatch.setattr("clinometer.pipeline.engines.visible_gpus", lambda: ["0"])
    assert open_engine("local", None) is None


class Seen:
    """Tells which GPUs a worker sees."""

    def open(self):
        return lambda unit: os.environ.get("CUDA_VISIBLE_DEVICES")


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="workers are copies on Linux alone")
def test_workers_are_copies_of_one_process_and_have_the_environment_of_now(fresh_workers, monkeypatch):
    told = []
    for value in ("before", "after"):
        monkeypatch.setenv("CLINOMETER_TOLD", value)
        engine = LocalEngine(2)
        try:
            told += [done.result for done in engine.map(Told(), [(unit,) for unit in range(2)])]
        finally:
            engine.close()
    parents, values, threads = zip(*told, strict=True)
    assert len(set(parents)) == 1
    assert set(parents) != {os.getpid()}
    assert values == ("before", "before", "after", "after")
    assert set(threads) == {"1"}


class Told:
    """Tells whose child a worker is, what it was told, and how many threads its parent runs."""

    def open(self):
        return lambda unit: (os.getppid(), os.environ["CLINOMETER_TOLD"], threads_of(os.getppid()))


def threads_of(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return status.partition("Threads:")[2].split()[0]


@pytest.mark.parametrize(("gpus", "method"), [(True, "spawn"), (False, "forkserver")])
def test_where_there_are_gpus_each_worker_starts_by_itself(monkeypatch, gpus, method):
    monkeypatch.setattr("clinometer.pipeline.engines.dispatch._may_see_gpus", lambda: gpus)
    monkeypatch.setattr(sys, "platform", "linux")
    assert dispatch._context().get_start_method() == method
