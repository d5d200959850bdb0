"""Workers go where GPUs have room. No GPU is here: what their driver tells is made up."""

import os

import pytest

from clinometer.errors import Code, EngineError
from clinometer.pipeline.engines import open_engine
from clinometer.pipeline.engines.dispatch import GIB, WORKING, Gpu, gpu_table, placed, share_of_a_gpu
from tests.raising import raises

WEIGHTS = 8 * GIB  # with room to work in, 10 GiB a worker
TABLE = {"0": Gpu(24 * GIB, 24 * GIB), "1": Gpu(9 * GIB, 24 * GIB), "2": Gpu(80 * GIB, 80 * GIB)}


def test_the_room_to_work_in_is_what_the_tests_reckon_with():
    assert WORKING == 2 * GIB


@pytest.mark.parametrize(
    ("workers", "places"),
    [(None, ["0", "2"]), (1, ["0"]), (3, ["0", "2", "0"]), (5, ["0", "2", "0", "2", "2"]), (10, None)],
)
def test_workers_go_where_there_is_room(workers, places):
    if places is not None:
        assert placed(["0", "1", "2"], WEIGHTS, workers, TABLE) == places
        return
    found = placed(["0", "1", "2"], WEIGHTS, 10, TABLE)
    assert [found.count(gpu) for gpu in ("0", "1", "2")] == [2, 0, 8]


def test_more_than_there_is_room_for_is_refused_with_what_there_is():
    with raises(
        EngineError,
        code=Code.FAILED,
        field="engine",
        match=r"10\.0 GiB of a GPU \(8\.0 .*10 workers, not 11; give --workers 10$",
    ):
        placed(["0", "1", "2"], WEIGHTS, 11, TABLE)
    with raises(EngineError, code=Code.FAILED, field="engine", match=r"more than 9\.0 GiB free; name a smaller model"):
        placed(["1"], WEIGHTS, None, TABLE)
    with raises(EngineError, code=Code.FAILED, field="engine", match="0 workers, not 1; name a smaller model"):
        placed(["1"], WEIGHTS, 1, TABLE)


@pytest.mark.parametrize(("weights", "table"), [(0, TABLE), (WEIGHTS, {}), (WEIGHTS, {"0": TABLE["0"]})])
def test_where_something_is_not_known_they_take_turns(weights, table):
    assert placed(["0", "1", "2"], weights, 5, table) == ["0", "1", "2", "0", "1"]
    assert placed(["0", "1", "2"], weights, None, table) == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("gpus", "workers", "weights", "total", "share"),
    [
        (0, 4, WEIGHTS, None, 0.0),
        (4, 2, WEIGHTS, 24 * GIB, 1.0),
        (2, 3, WEIGHTS, 24 * GIB, 0.5),
        (2, 4, WEIGHTS, 24 * GIB, 0.5),
        (2, 6, 0, None, 0.3333),
        (1, 7, WEIGHTS, None, 0.1428),
    ],
)
def test_actors_share_a_gpu_as_far_as_it_has_room(gpus, workers, weights, total, share):
    assert share_of_a_gpu(gpus, workers, weights, total) == share
    assert gpus * int(1 / share if share else 0) >= (workers if gpus else 0)


def test_actors_that_do_not_fit_are_refused():
    with raises(EngineError, code=Code.FAILED, field="engine", match="4 workers, not 5; give --workers 4"):
        share_of_a_gpu(2, 5, WEIGHTS, 24 * GIB)


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """A machine whose driver tells of three GPUs, one of them in parts."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\necho '0, GPU-aa, 24576, 24576'\necho '1, GPU-bb, 9216, 24576'\necho '2, GPU-cc, [N/A], [N/A]'\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tool


def test_the_driver_is_asked(driver):
    table = gpu_table()
    assert table["0"] == table["GPU-aa"] == Gpu(24 * GIB, 24 * GIB)
    assert table["1"].free == 9 * GIB
    assert "2" not in table
    driver.write_text("#!/bin/sh\nexit 9\n")
    assert gpu_table() == {}


def test_the_local_engine_places_its_workers(driver, monkeypatch):
    monkeypatch.setattr("clinometer.pipeline.engines.visible_gpus", lambda: ["GPU-aa", "GPU-bb"])
    engine = open_engine("local", None, weights=WEIGHTS)
    assert engine.workers == 1
    assert [slot._environment for slot in engine._slots] == [{"CUDA_VISIBLE_DEVICES": "GPU-aa"}]
    with raises(EngineError, code=Code.FAILED, field="engine", match="2 workers, not 3"):
        open_engine("local", 3, weights=WEIGHTS)
    assert open_engine("local", 3).workers == 3
