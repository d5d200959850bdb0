"""The reference model on workers, and killed in the middle: drawn, edited and classified as one process does it."""

import signal
from pathlib import Path

import pytest

from clinometer.pipeline.engines import dispatch
from clinometer.pipeline.results import write_report
from tests.pipeline.reference_audits import audit, audit_until

pytestmark = [pytest.mark.thorough, pytest.mark.slow, pytest.mark.usefixtures("kept_workers")]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Here as in a worker."""
    from clinometer._torch import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def here(one_thread, tmp_path_factory):
    """The whole audit of a suite by one process, made when it is first asked for."""
    made = {}

    def whole(suite):
        if suite not in made:
            made[suite] = audit(suite, tmp_path_factory.mktemp(suite) / "run")
        return made[suite]

    return whole


def tables(run):
    names = [name for folder in ("classifications", "embeddings") for name in all_names(run, folder)]
    samples = run.samples.drop(columns="seconds")
    files = {name: run.directory.read_bytes(name) for name in ("scores.parquet", "curves.parquet", *names)}
    return files, samples.to_csv()


def all_names(run, folder):
    place = Path(run.directory.root)
    return sorted(str(path.relative_to(place)) for path in (place / folder).rglob("*.parquet"))


def test_the_reference_model_draws_the_same_with_one_and_two_workers(here, tmp_path):
    one, two = (audit("few_targets", tmp_path / str(workers), workers) for workers in (1, 2))
    assert tables(one) == tables(two)
    assert tables(here("few_targets")) == tables(two)  # as one process with one thread
    names = set(all_names(two, "embeddings"))
    assert {f"embeddings/{name}/texts.parquet" for name in ("reference", "own-text_encoder")} <= names
    assert "own:text_encoder" in set(two.scores.encoder)


def test_texts_do_not_depend_on_the_threads_of_a_process_without_workers(here, tmp_path):
    """Its images may, by rounding: what holds no image is the same to the bit."""
    from clinometer._torch import torch

    torch.set_num_threads(3)
    try:
        three = audit("few_targets", tmp_path / "three")
    finally:
        torch.set_num_threads(1)
    one = here("few_targets")
    for name in ("reference", "own-text_encoder"):
        file = f"embeddings/{name}/texts.parquet"
        assert three.directory.read_bytes(file) == one.directory.read_bytes(file)
    text_alone = [run.scores[run.scores.component == "tt"].reset_index(drop=True) for run in (three, one)]
    assert {"reference", "own:text_encoder"} <= set(text_alone[0].encoder)
    assert text_alone[0].equals(text_alone[1])


@pytest.mark.parametrize("suite", ["editing", "classification"])
def test_workers_edit_and_classify(here, tmp_path, suite):
    assert tables(here(suite)) == tables(audit(suite, tmp_path, 2))


@pytest.mark.parametrize(
    ("suite", "folder", "enough", "all_parts"),
    [("editing", "samples", 4, 7), ("classification", "classifications", 1, 2)],
)
def test_what_is_killed_in_the_middle_ends_the_same(here, tmp_path, suite, folder, enough, all_parts):
    """Edits between two parts of images, a classification in the loop over timesteps.

    The driver is a copy of the process that has imported for the workers: importing takes longer than drawing.
    """
    out = tmp_path / "killed"
    last = f"{folder}/part-{enough - 1:05}.parquet"
    process = dispatch._context().Process(target=audit_until, args=(last, suite, out))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not (out / "scores.parquet").exists()
    assert len(list((out / folder).glob("part-*.parquet"))) < all_parts
    assert tables(audit(suite, out)) == tables(here(suite))


def test_a_whole_editing_audit_of_the_reference_model(here):
    run = here("editing")
    assert len(run.samples) == 8 * (1 + 6)
    assert run.samples.status.eq("ok").all()
    assert set(run.scores.component) >= {"flip_rate", "flip_asymmetry", "ita_change", "planted_order"}


@pytest.mark.pages
def test_a_whole_classification_audit_of_the_shipped_portraits(here):
    run = here("classification")
    assert run.model_card["settings"]["portraits"]["name"] == "reference portraits"
    scores = run.scores[run.scores.setting == "3 noise samples"]
    association = scores[scores.component == "association"].set_index("group")
    assert set(association.index) == set(run.suite.groups)
    assert association.n_target.eq(4).all()
    assert (association.low >= 0).all()
    assert association.low.le(association.value).all()
    assert association.value.le(association.high).all()
    gender = scores[(scores.component == "differential") & (scores.group == "gender")].iloc[0]
    value = association.value
    expected = (value["light man"] + value["dark man"] - value["light woman"] - value["dark woman"]) / 2
    assert gender.value == pytest.approx(expected)
    assert gender.verdict
    assert run.scores[run.scores.component == "evaluations"].value.eq(8 * 3).all()
    write_report(run)
    page = run.directory.read_bytes("report.html").decode()
    assert "given portraits, <bdi>reference portraits</bdi>" in page
