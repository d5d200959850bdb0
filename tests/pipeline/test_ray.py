"""The same tables from Ray, whether an actor, a machine or the whole cluster dies."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from clinometer.errors import Code, EngineError
from clinometer.pipeline.engines import open_engine
from tests.pipeline.engine_toys import Broken, Deadly, Doomed, Glance, SeenGpus, audit, children, tables
from tests.raising import raises
from tests.toys import Notes

pytestmark = [pytest.mark.slow]

STORE = 80 * 2**20


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return audit(tmp_path_factory.mktemp("finished") / "run", reader=Glance())


@pytest.fixture
def ray(monkeypatch):
    monkeypatch.setenv("RAY_gcs_server_port_wait_time_s", "120")  # else 30, which a machine with much to do may take
    return pytest.importorskip("ray")


@pytest.fixture
def cluster(ray):
    """Two machines of one CPU each, as far as Ray can tell."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": STORE})
    cluster.add_node(wait=False, num_cpus=1, object_store_memory=STORE)
    cluster.wait_for_nodes(timeout=600)  # by itself it waits half a minute, which a machine with much to do may take
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.thorough
def test_actors_make_the_same_tables_and_a_dead_one_is_replaced(tmp_path, ray, finished):
    for place in ("deaths", "reader's deaths"):
        (tmp_path / place).mkdir()
    notes = Notes()
    run = audit(
        tmp_path / "run",
        model=Deadly("lean 0.20", 1, tmp_path / "deaths"),
        reader=Glance(place=tmp_path / "reader's deaths", deaths=1),
        engine="ray",
        workers=2,
        progress=notes,
    )
    assert tables(run) == tables(finished)
    assert len([message for message in notes.messages if "a worker died over part" in message]) == 2
    read = [Path(each.directory.root) / "readings/glance" for each in (run, finished)]
    assert len(list(read[0].iterdir())) == len(run.parts) > 1
    assert all((read[0] / part.name).read_bytes() == part.read_bytes() for part in read[1].iterdir())
    assert not ray.is_initialized()


@pytest.mark.thorough
def test_what_a_model_raises_in_an_actor_is_told_in_its_line(tmp_path):
    with raises(Exception, code=Code.FAILED, match="^generator painter: .*RuntimeError: no such layer") as raised:
        audit(tmp_path / "run", model=Broken(), engine="ray", workers=1)
    assert "\n" not in str(raised.value)


@pytest.mark.thorough
def test_a_machine_that_dies_leaves_its_parts_to_the_other(tmp_path, finished, cluster):
    notes = Notes()
    (tmp_path / "told").mkdir()
    machine = cluster.list_all_nodes()[1]
    raylet = machine.all_processes["raylet"][0].process

    def kill():
        while not (tmp_path / "told/at work").exists():
            time.sleep(0.02)
        os.kill(raylet.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    doomed = Doomed(machine.node_id, tmp_path / "told")
    run = audit(tmp_path / "run", model=doomed, reader=Glance(), engine="ray", workers=2, progress=notes)
    killer.join()
    assert any("a worker died over part" in message for message in notes.messages)
    assert tables(run) == tables(finished)


SCRIPT = """
import sys
from tests import quick
from tests.toys import Eye, Painter, toy_suite
from clinometer.errors import EngineError
if __name__ == "__main__":
    try:
        quick.audit(Painter(halt=10), toy_suite(), sys.argv[1], encoder=Eye(), engine="ray", workers=2)
    except EngineError:
        sys.exit(2)
"""


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="lists processes in /proc")
@pytest.mark.parametrize("process", ["gcs_server", "raylet"])
def test_a_cluster_that_dies_ends_the_driver_and_the_run_goes_on(tmp_path, finished, process):
    out, script = tmp_path / "run", tmp_path / "script.py"
    script.write_text(SCRIPT)
    root = Path(__file__).parents[2]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]),
        "RAY_gcs_rpc_server_reconnect_timeout_s": "16",  # half of it to notice, half to end by oneself
    }
    driver = subprocess.Popen([sys.executable, str(script), str(out)], cwd=root, env=environment)
    while not list(out.glob("samples/part-*.parquet")):
        assert driver.poll() is None
        time.sleep(0.02)
    killed = [pid for pid in children(driver.pid) if process in Path(f"/proc/{pid}/comm").read_text()]
    assert killed
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    # the painters do not end, so it is the cluster's death that it has met; 1 is a gate's "broken"
    assert driver.wait() == 2
    assert not (out / "scores.parquet").exists()
    assert tables(audit(out, reader=Glance())) == tables(finished)
    assert not list(out.glob(".leases*"))


@pytest.mark.thorough
def test_a_cluster_that_is_not_there_is_told(monkeypatch, ray):
    """Ray itself looks for it three times, for five seconds and more: here, for a second each."""
    from ray._private.client_mode_hook import client_mode_should_convert
    from ray.util.client import worker

    for limit in ("INITIAL_TIMEOUT_SEC", "MAX_TIMEOUT_SEC"):
        assert getattr(worker, limit) > 1
        monkeypatch.setattr(worker, limit, 1)
    with raises(EngineError, code=Code.FAILED, match=r"'ray://127\.0\.0\.1:1'"):
        open_engine("ray=ray://127.0.0.1:1", 1)
    assert not client_mode_should_convert()  # a cluster may be started here afterwards


@pytest.mark.thorough
def test_actors_share_gpus_as_far_as_their_memory_has_room(tmp_path, monkeypatch, ray):
    """Ray takes our word that there are two GPUs, and their driver is made up."""
    from clinometer.pipeline.engines.ray import RayEngine

    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho '0, GPU-aa, 24576, 24576'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "told").mkdir()
    ray.init(num_cpus=4, num_gpus=2, log_to_driver=False, include_dashboard=False, object_store_memory=STORE)
    try:
        with raises(EngineError, code=Code.FAILED, field="engine", match=r"10\.0 GiB .* 4 .*not 5; .*--workers 4"):
            RayEngine("", 5, 8 * 2**30)
        engine = RayEngine("", 4, 8 * 2**30)
        work = SeenGpus(tmp_path / "told", 4)
        seen = [done.result for done in engine.map(work, [(unit,) for unit in range(8)])]
        engine.close()
    finally:
        ray.shutdown()
    assert set(seen) == {"0", "1"}
