"""The reference model on workers: drawn, edited and classified as one process with one thread does it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import clinometer as cm

pytestmark = pytest.mark.slow


SCRIPT = """
import sys
import clinometer as cm
from tests.pipeline import reference_audits as here
if __name__ == "__main__":
    suite, out, workers = sys.argv[1:]
    here.audit(suite, out, int(workers) or None)
"""


def audited(suite, out, workers):
    """A run of a process of its own: this one may have other threads, and keeps them."""
    root = Path(__file__).parents[2]
    script = out.parent / "script.py"
    script.write_text(SCRIPT)
    paths = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, str(script), suite, str(out), str(workers)], cwd=root, env=environment, check=True)
    return cm.open_run(out)


def tables(run):
    names = [name for folder in ("classifications", "embeddings") for name in all_names(run, folder)]
    samples = run.samples.drop(columns="seconds")
    files = {name: run.directory.read_bytes(name) for name in ("scores.parquet", "curves.parquet", *names)}
    return files, samples.to_csv()


def all_names(run, folder):
    place = Path(run.directory.root)
    return sorted(str(path.relative_to(place)) for path in (place / folder).rglob("*.parquet"))


def test_the_reference_model_draws_the_same_with_one_and_two_workers(tmp_path):
    here, one, two = (audited("few_targets", tmp_path / str(workers), workers) for workers in (0, 1, 2))
    assert tables(one) == tables(two)
    assert tables(here) == tables(two)  # as one process with one thread


@pytest.mark.parametrize("suite", ["editing", "classification"])
def test_workers_edit_and_classify(tmp_path, suite):
    here, two = (audited(suite, tmp_path / str(workers), workers) for workers in (0, 2))
    assert tables(here) == tables(two)
