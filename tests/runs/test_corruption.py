"""What is read back is what was written: a few hundred changes to a run, and none is silent or ends in a traceback.

The long form is ``python -m tests.fuzz.corruption``.
"""

import random
from collections import Counter

import pytest

from tests.fuzz.corruption import Specimen, attempt

pytestmark = pytest.mark.pages


@pytest.fixture(scope="session")
def specimen(tmp_path_factory):
    return Specimen(tmp_path_factory.mktemp("corruption"))


@pytest.mark.parametrize(
    ("ways", "count"),
    [
        (["read"], 60),
        (["score", "report", "compare", "resume"], 6),
        pytest.param(["read"], 250, marks=pytest.mark.thorough),
        pytest.param(["score", "report", "compare", "resume"], 25, marks=pytest.mark.thorough),
    ],
)
def test_no_change_is_silent(specimen, ways, count):
    rng = random.Random(len(ways))
    tried = [attempt(specimen, rng, ways) for _ in range(count)]
    assert [each for each in tried if each.outcome in ("silent", "traceback")] == []
    outcomes = Counter(each.outcome for each in tried)
    assert outcomes["named"] > 0.9 * count
    assert all(len(each.detail.splitlines()) == 1 for each in tried if each.outcome == "named")
    if count >= 250:  # each kind of file was among them
        assert {each.file.split("/")[0] for each in tried} == {name.split("/")[0] for name in specimen.whole}


def test_a_specimen_is_whole_again(specimen):
    """Else every change after the first would be named for the first."""
    attempt(specimen, random.Random(0))
    for name, content in specimen.whole.items():
        assert (specimen.place / name).read_bytes() == content
