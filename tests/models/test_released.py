"""Where workers compute, the command lets go of its own weights before they load theirs."""

from copy import copy

import pytest

import clinometer as cm
from clinometer._torch import torch
from clinometer.models import load_generator
from clinometer.models.encoders.transformers_clip import load as load_encoder
from clinometer.pipeline import recipes
from clinometer.pipeline.engines import Done, open_engine
from clinometer.pipeline.parallel import StageWork
from clinometer.pipeline.recipes import Models
from clinometer.studies import study_of
from tests import quick
from tests.toys import Eye, toy_suite

pytestmark = pytest.mark.usefixtures("one_thread")

SUITE = toy_suite(target=2, attribute=2, concepts=2)


@pytest.fixture(scope="module")
def one_thread():
    """As a worker has: the one of these tests is this process, and so is the one that they are compared with."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield
    torch.set_num_threads(threads)


def on_meta(models):
    """Of each model, whether all of its weights are gone (True), or none (False)."""
    modules = {
        name: [part for part in model.pipeline.components.values() if isinstance(part, torch.nn.Module)]
        if hasattr(model, "pipeline")
        else [model.model]
        for name, model in models.items()
    }
    found = {
        name: {weight.is_meta for each in parts for weight in each.parameters()} for name, parts in modules.items()
    }
    assert all(len(kinds) == 1 for kinds in found.values())
    return {name: kinds.pop() for name, kinds in found.items()}


class Here:
    """A worker in this process, which looks at what the command has loaded."""

    workers = 1

    def __init__(self, loaded, stop_after=None):
        self.loaded, self.stop_after, self.gone, self.made = loaded, stop_after, [], []

    def map(self, work, units):
        self.gone.append(on_meta(self.loaded))
        make = work.open()
        for unit in units:
            result = make(unit)
            self.made.append(work.stage.__name__ if isinstance(work, StageWork) else "measure")
            if self.made[-1] == self.stop_after:
                raise KeyboardInterrupt
            yield Done(unit, result)

    def close(self):
        pass


@pytest.fixture
def loaded(monkeypatch):
    """What the command loads; what a worker loads is its own."""
    found = {}

    def loader(kind, load):
        def loads(spec, **options):
            model = load(spec, **options)
            found.setdefault(kind, model)  # the command is the first
            return model

        return loads

    for name in ("load_generator", "load_encoder"):
        monkeypatch.setattr(recipes, name, loader(name, getattr(recipes, name)))
    return found


@pytest.fixture(scope="module")
def asked(stable_diffusion, clip):
    return {"model": str(stable_diffusion), "encoder": str(clip), "suite": SUITE, "steps": 1, "device": "cpu"}


@pytest.fixture(scope="module")
def by_one_process(asked, one_thread, tmp_path_factory):
    return quick.audit(out=tmp_path_factory.mktemp("one") / "run", **asked)


def scored(run):
    return run.directory.read_bytes("scores.parquet")


@pytest.mark.thorough
def test_an_audit_by_workers_lets_go_and_finds_the_same(tmp_path, asked, by_one_process, loaded):
    engine = Here(loaded)
    run = quick.audit(out=tmp_path / "run", engine=engine, **asked)
    assert engine.gone
    assert all(each == {"load_generator": True, "load_encoder": True} for each in engine.gone)
    assert scored(run) == scored(by_one_process)
    assert list(run.images(run.samples.id)) == list(by_one_process.images(by_one_process.samples.id))
    assert run.own_encoder_cards == by_one_process.own_encoder_cards
    assert list(run.own_encoder_cards) == ["own:text_encoder"]
    assert engine.made.count("embed_own_texts") == 1


@pytest.mark.thorough
def test_an_encoder_that_is_added_by_workers_is_let_go(by_one_process, tmp_path, asked, loaded):
    run = quick.audit(out=tmp_path / "run", **asked | {"encoder": Eye()})
    loaded.clear()
    engine = Here(loaded)
    cm.score_run(run.url, encoder=asked["encoder"], engine=engine, device="cpu")
    assert engine.gone[0] == {"load_encoder": True}


@pytest.mark.thorough
def test_objects_of_the_users_stay_whole(tmp_path, asked):
    mine = {
        "model": load_generator(asked["model"], steps=1, device="cpu"),
        "encoder": load_encoder(asked["encoder"], device="cpu"),
    }
    quick.audit(out=tmp_path / "run", engine=Here(mine), suite=SUITE, **mine)
    assert on_meta(mine) == {"model": False, "encoder": False}


@pytest.mark.thorough
def test_a_stage_that_is_not_shared_keeps_the_generator(tmp_path, asked, loaded, monkeypatch):
    study = copy(study_of(SUITE))
    study.stages = tuple(stage.make for stage in study.stages)
    monkeypatch.setattr("clinometer.pipeline.audits.study_of", lambda suite: study)
    engine = Here(loaded)
    quick.audit(out=tmp_path / "run", engine=engine, **asked)
    assert engine.gone[-1] == {"load_generator": False, "load_encoder": True}


@pytest.mark.thorough
def test_texts_of_a_command_that_was_stopped_before_it_recorded_them_count(tmp_path, asked, by_one_process, loaded):
    with pytest.raises(KeyboardInterrupt):
        quick.audit(out=tmp_path / "run", engine=Here(loaded, stop_after="embed_own_texts"), **asked)
    assert cm.open_run(tmp_path / "run").own_encoder_cards == {}
    assert scored(quick.audit(out=tmp_path / "run", engine=Here({}), **asked)) == scored(by_one_process)
    assert cm.open_run(tmp_path / "run").own_encoder_cards == by_one_process.own_encoder_cards


def test_what_was_let_go_is_loaded_again_when_it_is_asked_for(asked):
    models = Models()
    first, recipe = models.generator(asked["model"], {"steps": 1}, "cpu")
    models.encoders(asked["encoder"], "cpu")
    models.release(generator=True)
    again, same = models.generator(asked["model"], {"steps": 1}, "cpu")
    (encoder,), _ = models.encoders(asked["encoder"], "cpu")
    assert on_meta({"first": first, "again": again, "encoder": encoder}) == {
        "first": True, "again": False, "encoder": False,
    }  # fmt: skip
    assert first.card == again.card
    assert recipe.key == same.key


def test_room_is_made_before_it_is_looked_for_and_only_for_workers(monkeypatch):
    told = []
    monkeypatch.setattr("clinometer.pipeline.engines.visible_gpus", lambda: ["0", "1"])
    monkeypatch.setattr("clinometer.pipeline.engines.gpu_table", lambda: told.append("looked") or {})

    def make_room():
        told.append("made")

    assert open_engine("local", None, make_room=make_room) is not None
    assert told == ["made", "looked"]
    assert open_engine("local", 1, "cpu", make_room=make_room) is not None
    assert told == ["made", "looked", "made"]
    assert open_engine("local", None, "cpu", make_room=make_room) is None
    assert told == ["made", "looked", "made"]
