"""How far saving a picture again moves its vector is measured once, on the run's own pictures."""

import pandas as pd

import clinometer as cm
from clinometer.stats.dependence import SAVED_AGAIN, TOLERANCE
from tests import quick
from tests.toys import Eye, Painter, toy_suite


def test_a_run_keeps_how_far_saving_again_moves_a_vector(tmp_path):
    run = quick.audit(Painter(), toy_suite(), tmp_path / "run", encoder=Eye())
    name = next(iter(run.encoder_cards))
    place = tmp_path / "run" / "embeddings" / name / "saved-again.parquet"
    table = pd.read_parquet(place)
    assert set(table.change) == {"JPEG, quality 75", "half its size and back", "cropped by 2 %"}
    assert run.vectors.saved_again(name) == max(table.distance.quantile(0.95), 2e-5)
    before = place.read_bytes()
    quick.audit(Painter(), toy_suite(), tmp_path / "run", encoder=Eye())
    assert place.read_bytes() == before


def test_a_picture_that_cannot_be_saved_again_stops_nothing(tmp_path, monkeypatch):
    def fail(image):
        raise ValueError("no")

    monkeypatch.setattr("clinometer.runs.encoding.saved_again", fail)
    run = quick.audit(Painter(), toy_suite(), tmp_path / "run", encoder=Eye())
    assert set(run.embeddings("eye")) == {sample.id for sample in run.plan}
    assert run.vectors.saved_again("eye") == SAVED_AGAIN
    place = "embeddings/eye/saved-again.parquet"
    assert place in run.ledger.files
    assert len(pd.read_parquet(tmp_path / "run" / place)) == 0


def test_a_run_of_an_earlier_version_joins_identical_pictures_alone(tmp_path):
    quick.audit(Painter(), toy_suite(), tmp_path / "run", encoder=Eye())
    (tmp_path / "run/embeddings/eye/saved-again.parquet").unlink()
    assert cm.open_run(tmp_path / "run").vectors.saved_again("eye") == TOLERANCE
