"""The benchmark on real pictures: its kinds of known pictures, what it says of a reader that errs."""

import numpy as np
import pandas as pd
import pytest
import scipy

from benchmarks import real_pictures
from benchmarks.real_pictures import GROUPS, UNREAD, cells, judge, likeness_rows, prompt_rows, summary_rows


def pictures(n, *, models=("one", "two"), concepts=("cook", "judge"), seed=0):
    """Scenes of which two in five are unread, men more often, and portraits that are all read."""
    rng = np.random.default_rng(seed)
    rows = [(m, c, p, g) for m in models for c in concepts for p in ("plain", "diverse") for g in rng.choice(GROUPS, n)]
    table = pd.DataFrame(rows, columns=["model", "concept", "prompt", "group"])
    true = (table.group == GROUPS[1]).astype(int).to_numpy()
    unread = rng.random(len(table)) < np.where(true, 0.55, 0.25)
    read = np.where(rng.random(len(table)) < 0.9, true, 1 - true)
    portraits = pd.DataFrame(
        {"group": np.repeat(GROUPS, 100), "model": "portraits", "concept": "portrait", "prompt": ""}
    )
    return tuple(
        each.assign(
            answer=answer,
            confidence=np.where(answer < UNREAD, 0.9, np.nan),
            size_read=np.nan,
            vector=list(rng.normal(size=(len(each), 4)) + 5 * (each.model == "portraits").to_numpy()[:, None]),
        )
        for each, answer in ((table, np.where(unread, UNREAD, read)), (portraits, np.repeat([0, 1], 100)))
    )


def test_every_cell_has_its_kinds_of_known_pictures_and_none_of_its_own_but_halves():
    found = list(cells(*pictures(4), splits=2))
    names = {(cell.level, cell.name) for cell in found}
    assert {level for level, _ in names} == {"model", "concept", "model, concept, prompt"}
    assert len(names) == 2 + 2 + 8
    for cell in found:
        shared = set(cell.asked.index)
        if cell.same:
            assert abs(len(cell.asked) - len(cell.known)) <= 1
            assert not set(cell.asked.index) & set(cell.known.index)
        elif cell.kind != "portraits":
            assert not shared & set(cell.known.index)
    assert {cell.kind for cell in found if cell.level == "model"} == {"portraits", "other models", "half of the same"}


@pytest.mark.thorough
def test_portraits_known_are_wrong_before_and_not_told_after():
    judged = pd.DataFrame(map(judge, cells(*pictures(40), splits=1)))
    by_model = judged[(judged.level == "model") & (judged.kind == "portraits")]
    assert not by_model.before_holds.astype(bool).any()
    assert by_model.holds.isna().all()
    assert (by_model.labels > 0).all()
    halves = judged[judged.kind == "half of the same"]
    assert halves.holds.notna().mean() > 0.8
    assert halves.holds.dropna().mean() > 0.8
    rows = list(summary_rows(judged))
    assert sum(row["of"] for row in rows) == len(judged)
    likeness = {(row["cells"], row["known"]): row for row in likeness_rows(judged)}
    assert likeness["model", "portraits"]["look different"] == "2 of 2"
    assert likeness["model", "portraits"]["unlike, with"] == likeness["model", "portraits"]["unlike, without"] == 2


def test_both_prompts_are_tested_by_counts(tmp_path):
    scenes, _ = pictures(10)
    rows = prompt_rows(scenes, tmp_path)
    assert [row["concept"] for row in rows] == ["cook", "judge", "cook", "judge", "of 4"]
    first = scenes[(scenes.model == "one") & (scenes.concept == "cook")]
    women = [int(((first.prompt == p) & (first.group == GROUPS[0])).sum()) for p in ("plain", "diverse")]
    p = scipy.stats.fisher_exact([[w, 10 - w] for w in women]).pvalue
    assert float(rows[0]["exact p"]) == pytest.approx(p, abs=1e-4)
    assert prompt_rows(scenes, tmp_path) == rows
    printed = tmp_path / "printed.csv"
    printed.write_text("model,concept,p\none,cook,0.01\ntwo,judge,0.2\n")
    beside = prompt_rows(scenes, tmp_path, printed)
    assert [row["printed p"] for row in beside] == ["0.01", "", "", "0.2", 1]
    assert [{k: v for k, v in row.items() if k != "printed p"} for row in beside] == rows
    printed.write_text("model,concept,p\nthree,cook,0.01\n")
    with pytest.raises(SystemExit, match="found three cook, of which there are no pictures"):
        prompt_rows(scenes, tmp_path, printed)
    with pytest.raises(AssertionError, match="expected two"):
        prompt_rows(scenes.assign(prompt="plain"), tmp_path)


@pytest.mark.thorough
def test_the_chart_has_a_line_a_model(tmp_path):
    judged = pd.DataFrame(map(judge, cells(*pictures(20), splits=1)))
    real_pictures.draw_chart(judged, tmp_path / "chart.svg")
    assert "<svg" in (tmp_path / "chart.svg").read_text()
