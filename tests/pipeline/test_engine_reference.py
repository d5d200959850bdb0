"""The reference model on workers: drawn, edited and classified as one process with one thread does it."""

from pathlib import Path

import pytest

from tests.pipeline.reference_audits import audit

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_resamples", "kept_workers")]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """Here as in a worker."""
    from clinometer._torch import torch

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def tables(run):
    names = [name for folder in ("classifications", "embeddings") for name in all_names(run, folder)]
    samples = run.samples.drop(columns="seconds")
    files = {name: run.directory.read_bytes(name) for name in ("scores.parquet", "curves.parquet", *names)}
    return files, samples.to_csv()


def all_names(run, folder):
    place = Path(run.directory.root)
    return sorted(str(path.relative_to(place)) for path in (place / folder).rglob("*.parquet"))


def test_the_reference_model_draws_the_same_with_one_and_two_workers(tmp_path):
    here, one, two = (audit("few_targets", tmp_path / str(workers), workers or None) for workers in (0, 1, 2))
    assert tables(one) == tables(two)
    assert tables(here) == tables(two)  # as one process with one thread


@pytest.mark.parametrize("suite", ["editing", "classification"])
def test_workers_edit_and_classify(tmp_path, suite):
    here, two = (audit(suite, tmp_path / str(workers), workers) for workers in (None, 2))
    assert tables(here) == tables(two)
