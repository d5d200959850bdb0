"""An encoder that only begins has two parts in its hands, and gives the vectors of one that has one."""

import pytest

import clinometer as cm
from clinometer.errors import Code, ModelError
from clinometer.runs.encoding import MEASURED
from tests import quick
from tests.raising import raises
from tests.runs.stepwise import Ahead
from tests.toys import Eye, Painter, toy_suite


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return audit(tmp_path_factory.mktemp("finished") / "run", Eye())


def audit(out, encoder):
    return quick.audit(model=Painter(), suite=toy_suite(), encoder=encoder, out=out)


def vectors(run):
    return {key: vector.tobytes() for key, vector in run.embeddings("eye").items()}


def test_the_next_part_is_begun_before_one_is_waited_for(tmp_path, finished):
    ahead = Ahead()
    run = audit(tmp_path / "run", ahead)
    assert vectors(run) == vectors(finished)
    parts = len(run.parts)
    order = {what: place for place, what in enumerate(ahead.noted)}
    later = range(2, parts)  # 0 is the first part, 1 its second look
    assert all(order["begun", number + 1] < order["waited for", number] for number in later)
    assert sum(what == "begun" for what, _ in ahead.noted) == parts + 1 + MEASURED  # pictures that are saved again


def test_a_device_that_is_lost_costs_the_parts_in_its_hands_and_no_more(tmp_path, finished):
    with raises(ModelError, code=Code.FAILED, match="the device is lost"):
        audit(tmp_path / "run", Ahead(break_at=4))
    run = cm.open_run(tmp_path / "run")
    assert [run.vectors.has("eye", part) for part in run.parts][:3] == [True, True, False]
    assert vectors(audit(tmp_path / "run", Ahead())) == vectors(finished)
