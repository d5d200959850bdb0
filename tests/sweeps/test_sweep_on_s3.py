"""A sweep on an object store: the files of one on a disk, whatever the network does, and however it is stopped."""

import pytest

import clinometer as cm
from clinometer.runs.storage import Directory
from tests.runs.s3_server import bucket
from tests.sweeps.toy_sweeps import Shifted, painters, swept
from tests.toys import Eye

pytest.importorskip("s3fs")
pytest.importorskip("moto")


@pytest.fixture(scope="module")
def store():
    with bucket() as proxy:
        yield proxy


def told(url):
    """What a sweep says, by file; pages name the place."""
    directory = Directory(url)
    files = ["table.csv", "differences.csv"]
    cells = sorted(directory.read_json("sweep.json")["cells"])
    files += [f"cells/{cell}/{name}" for cell in cells for name in ("scores.csv", "plan.parquet")]
    return {name: directory.read_bytes(name) for name in files}


@pytest.mark.thorough
@pytest.mark.slow
def test_it_is_the_one_on_a_disk_and_goes_on_after_a_stop(store, tmp_path):
    """Every 30th request is refused, and every 30th answer is lost."""
    swept(tmp_path / "here", {"seed": 0})
    store.fault = lambda method, path, number: {29: "busy", 14: "lost answer"}.get(number % 30, "")
    models = painters(redder=Shifted(1.0, name="redder", stop_after=10))
    with pytest.raises(KeyboardInterrupt):
        swept("s3://bucket/sweeps/there", {"seed": 0}, models=models)
    models["redder"].stop_after = None
    there = swept("s3://bucket/sweeps/there", {"seed": 0}, models=models)
    store.fault = lambda method, path, number: ""
    assert not there.failed
    assert told("s3://bucket/sweeps/there") == told(str(tmp_path / "here"))
    opened = cm.Sweep("s3://bucket/sweeps/there")
    assert set(opened.runs) == set(there.runs)
    assert len(opened.table) == len(there.table)
    assert Directory("s3://bucket/sweeps/there").exists("sweep.html")
    eye, again = Eye(), painters()
    swept("s3://bucket/sweeps/there", {"seed": 0}, models=again, encoder=eye)
    assert [model.drawn for model in again.values()] == [0, 0]
    assert eye.seen == 0
