"""The page that leads from a question to a number names rows that there are."""

import re
import shutil

import pytest

import clinometer as cm
from tests import quick
from tests.docs.pages import ROOT, page, table_rows
from tests.studies.steerability.toy import Steered, steerable
from tests.toys import Eye, Painter, crossed_suite, toy_suite, two_wordings

PAGE = page("docs/which-number.md")
RUNS = ROOT / "tests/fixtures/runs"
NO_COMPONENTS = {"verdict", "side", "flag", "unstable", "null"}


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """Name the components of every metric of runs of all studies, and of a comparison."""
    folder = tmp_path_factory.mktemp("rows")
    asked = {
        "crossed": (Painter(), crossed_suite()),
        "wordings": (Painter(), two_wordings()),
        "refused": (Painter(refuse="lean 0.20"), toy_suite(concepts=2)),
        "steered": (Steered(), steerable(concepts=2)),
        "ablated": (Painter(), toy_suite(concepts=2, ablate=True)),
    }
    runs = [quick.audit(*what, folder / name, encoder=Eye()) for name, what in asked.items()]
    runs += [cm.open_run(RUNS / name) for name in ("leaning", "t2iat", "editing", "classification")]
    found = {}
    for metric, component in {row for run in runs for row in zip(run.scores.metric, run.scores.component, strict=True)}:
        found.setdefault(metric, set()).add(component)
    shutil.copytree(RUNS / "leaning", folder / "again")
    (comparison,) = cm.compare(RUNS / "leaning", folder / "again")
    # toys have no text encoder of their own; tests/models hold those of real pipelines to this name
    return found | {"comparison.csv": set(comparison.scores.component), "own_text": {"tt"}}


@pytest.mark.thorough
def test_the_rows_that_are_named_are_there(names):
    rows = [row for row in table_rows(PAGE, "question") if row[1].startswith("`")]
    told = {tuple(re.findall(r"`([^`]+)`", row[1])) for row in rows} - {("plan", "n_decide"), ("verify",)}
    assert len(told) > 25
    wrong = [each for each in told if not set(each[1:]) - NO_COMPONENTS <= names.get(each[0], set())]
    assert wrong == []


def test_the_column_that_is_named_is_there():
    assert "`n_decide`" in PAGE
    assert "n_decide" in cm.open_run(RUNS / "leaning").scores
