"""Cards: what a plug-in may put into them."""

import numpy as np

import clinometer as cm
from clinometer.errors import Code, ModelError
from clinometer.models.protocols import Card
from tests import quick
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite

PLAIN = {"steps": 3, "scale": 0.5, "sizes": [8, 8], "deep": {"on": True}}
OF_NUMPY = {
    "steps": np.int64(3), "scale": np.float32(0.5), "sizes": np.array([8, 8]), "deep": {"on": np.bool_(True)},
}  # fmt: skip


def test_numbers_of_numpy_are_numbers(tmp_path):
    painter = Painter()
    plain, found = (Card("generator", "mine", "toy", settings=held, notes=held) for held in (PLAIN, OF_NUMPY))
    assert found == plain
    assert found.fingerprint == plain.fingerprint
    painter.card = found
    run = quick.audit(painter, toy_suite(target=1, attribute=1), tmp_path / "run", encoder=Eye())
    assert cm.open_run(run.url).model_card["notes"] == PLAIN


def test_what_run_json_cannot_hold_is_refused_by_name():
    with raises(ModelError, code=Code.WRONG_TYPE, match="card of mine, notes: .*set"):
        Card("generator", "mine", "toy", notes={"sizes": {8}})
