"""Counts without images: the table, its numbers, and the commands on such a run."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest, fisher_exact
from typer.testing import CliRunner

from clinometer import api
from clinometer.cli.app import app
from clinometer.errors import (
    ClinometerError,
    Code,
    ImportManifestError,
    RunCorruptError,
    RunMismatchError,
    RunNotFoundError,
    SuiteError,
)
from clinometer.ratings import ratable_images
from clinometer.stats.clusters import contrast
from clinometer.stats.proportion import (
    exact_share,
    logistic_slope,
    logistic_slopes,
    share_differences,
    wilson_interval,
)
from clinometer.studies import rated_of
from clinometer.studies.counts.scores import Counts, _filled_shares, compared_counts, counts_study, excess_rows
from clinometer.studies.counts.study import read_counts
from tests.raising import raises

PLAIN = "concept,group,n\ndoctor,man,42\ndoctor,woman,8\nnurse,man,3\nnurse,woman,47\ncook,man,27\ncook,woman,23\n"
SETTINGS = "concept,setting,group,n\n" + "".join(
    f"{concept},guidance {setting},{group},{n}\n"
    for concept, counts in {"doctor": (74, 26, 94, 6), "cook": (37, 63, 23, 77)}.items()
    for (setting, group), n in zip(product(("1.5", "7.5"), ("man", "woman")), counts, strict=True)
)
"""Of 100 images each, the shares that arXiv 2605.28036 prints for Stable Diffusion 3."""


def written(place: Path, text: str) -> Path:
    file = place / "counts.csv"
    file.write_text(text)
    return file


def table(rows: list[list[int]], discarded: list[int] | None = None, groups: str = "ab") -> Counts:
    n = np.array(rows)[:, None, :]
    return Counts(
        tuple(f"c{i}" for i in range(len(rows))), tuple(groups), ("",), n,
        np.array(discarded if discarded is not None else [0] * len(rows))[:, None],
    )  # fmt: skip


# --- the numbers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 5, 6, 23, 200])
def test_an_exact_interval_and_its_p_are_scipys_and_agree_with_each_other(n: int) -> None:
    for k in range(n + 1):
        ours, theirs = exact_share(k, n, 1 / 3), binomtest(k, n).proportion_ci(method="exact")
        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))
        assert (ours.p_value < 0.05) == (not ours.low <= 1 / 3 <= ours.high)


@pytest.mark.thorough
def test_a_slope_is_the_logistic_regression_of_statsmodels() -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(3)
    for _ in range(20):
        x, n = np.sort(rng.uniform(1, 9, 4)), rng.integers(20, 80, 4)
        k = rng.binomial(n, 0.5)
        ours = logistic_slope(x, k, n)
        theirs = sm.GLM(np.c_[k, n - k], sm.add_constant(x), family=sm.families.Binomial()).fit()
        assert ours.value == pytest.approx(theirs.params[1], abs=1e-7)
        assert (ours.low, ours.high) == pytest.approx(theirs.conf_int()[1], abs=0.15 * (ours.high - ours.low))


def test_a_slope_turns_with_the_groups_and_the_scale() -> None:
    x, k, n = np.array([1.0, 3, 5, 8]), np.array([6, 9, 8, 15]), np.array([20, 20, 12, 20])
    one, other, scaled = logistic_slope(x, k, n), logistic_slope(x, n - k, n), logistic_slope(10 * x + 4, k, n)
    assert (other.value, other.low, other.high) == pytest.approx((-one.value, -one.high, -one.low))
    assert (scaled.value, scaled.low) == pytest.approx((one.value / 10, one.low / 10))
    assert one.p_value == pytest.approx(other.p_value) == pytest.approx(scaled.p_value)


def test_shares_of_all_and_none_leave_a_slope_with_one_end() -> None:
    slope = logistic_slope([1, 2, 3], [6, 10, 10], [10, 10, 10])
    assert 0 < slope.low < slope.value < slope.high == np.inf
    assert slope.p_value < 0.05
    assert "half an image" in slope.reason
    assert np.isnan(logistic_slope([1, 2], [10, 10], [10, 10]).value)


@pytest.mark.thorough
def test_many_slopes_at_once_are_those_of_each_by_itself() -> None:
    rng = np.random.default_rng(4)
    x, n = np.array([1.0, 2, 4, 9]), rng.integers(0, 12, (24, 4))
    k = rng.binomial(n, rng.uniform(0, 1, (24, 1)))
    for at_once, counted, of in zip(logistic_slopes(x, k, n), k, n, strict=True):
        alone = logistic_slope(x, counted, of)
        assert at_once.reason == alone.reason
        numbers = ([each.value, each.low, each.high, each.p_value, each.p_line] for each in (at_once, alone))
        np.testing.assert_allclose(*numbers, rtol=1e-9, atol=1e-12)


def test_a_slope_is_where_its_score_is_zero_and_its_ends_where_the_test_just_refuses() -> None:
    from scipy.optimize import brentq
    from scipy.special import expit
    from scipy.stats import chi2

    x, k, n = np.array([1.0, 3, 5, 8]), np.array([6, 9, 8, 15]), np.array([20, 20, 12, 20])

    def score(b: float) -> tuple[float, float]:
        shares = expit(brentq(lambda a: (n * expit(a + b * x)).sum() - k.sum(), -50, 50) + b * x)
        weight = n * shares * (1 - shares)
        return float((x * (k - n * shares)).sum()), float((weight * (x - np.average(x, weights=weight)) ** 2).sum())

    slope = logistic_slope(x, k, n)
    assert score(slope.value)[0] == pytest.approx(0, abs=1e-8)
    for end in (slope.low, slope.high):
        first, information = score(end)
        assert first**2 / information == pytest.approx(chi2.ppf(0.95, 1))
    first, information = score(0)
    assert slope.p_value == pytest.approx(chi2.sf(first**2 / information, 1))


def test_two_groups_mirror_each_other() -> None:
    rows = [row for row in counts_study(table([[42, 8], [3, 47], [27, 23]])) if row.component == "excess"]
    for one, other in zip(rows[::2], rows[1::2], strict=True):
        assert (one.value, one.low, one.q) == pytest.approx((-other.value, -other.high, other.q))
        assert (one.verdict, one.side) == (other.verdict, other.side)
    assert [row.side for row in rows[::2]] == ["a", "b", ""]


def test_what_was_discarded_bounds_a_share_and_qualifies_its_verdict() -> None:
    rows = list(counts_study(table([[42, 8], [42, 8]], [0, 30])))
    whole, open_ = (row for row in rows if row.component == "excess" and row.group == "a")
    assert (whole.verdict, whole.depends_on) == ("leans", "")
    assert (open_.verdict, open_.depends_on, open_.n_missing) == ("leans", "missing", 30)
    share = next(row for row in rows if row.component == "share" and row.concept == "c1" and row.group == "a")
    assert share.bound_low == pytest.approx(exact_share(42, 80).low)
    assert share.bound_high == pytest.approx(exact_share(72, 80).high)


def test_three_groups_lean_to_one_and_away_from_others() -> None:
    rows = [row for row in counts_study(table([[42, 8, 3]], groups="abc")) if row.component == "excess"]
    assert [row.side for row in rows] == ["a", "others", "others"]
    assert sum(row.value for row in rows) == pytest.approx(0)


@pytest.mark.thorough
def test_of_equal_shares_no_more_than_one_table_in_twenty_is_called_leaning() -> None:
    rng, called = np.random.default_rng(5), 0
    for _ in range(300):
        counts = table(rng.multinomial(rng.integers(6, 40), [1 / 3] * 3, 12).tolist(), groups="abc")
        called += any(row.verdict == "leans" for row in excess_rows(counts, counts.n, None))
    assert called / 300 <= 0.05


def test_differences_turn_with_the_order_of_the_tables() -> None:
    first, second = table([[42, 8], [20, 30]]), table([[20, 30], [21, 29]])
    there, back = compared_counts(first, second), compared_counts(second, first)
    for one, other in zip(there, back, strict=True):
        assert (one.value, one.p) == pytest.approx((-other.value, other.p))
    assert [(row.verdict, row.side) for row in there] == [("more", "b"), ("undecided", "")]


def test_differences_at_once_are_those_of_each_by_itself() -> None:
    rng = np.random.default_rng(6)
    m, o = rng.integers(1, 60, (2, 400))
    o[:100] = m[:100]  # ties: of equal numbers every outcome has a mirror image that is as probable
    k, j = rng.binomial(m, rng.uniform(0, 1, 400)), rng.binomial(o, rng.uniform(0, 1, 400))
    m[-2:], o[-2:], k[-2:], j[-2:] = (40_000, 2_000_000), (50_000, 900), (20_100, 7), (25_300, 3)
    found = share_differences((k, m), (j, o))
    for at in range(400):
        parts = [wilson_interval(int(j[at]), int(o[at])), wilson_interval(int(k[at]), int(m[at]))]
        alone = contrast(parts, (1, -1))
        assert (found.value[at], found.low[at], found.high[at]) == pytest.approx((alone.value, alone.low, alone.high))
        p = fisher_exact([[k[at], m[at] - k[at]], [j[at], o[at] - j[at]]]).pvalue
        assert found.p_value[at] == pytest.approx(min(1.0, p), rel=1e-9)


def test_a_filled_share_is_judged_as_the_rows_are() -> None:
    counts = table([[42, 8, 3], [1, 2, 0], [0, 0, 0], [20, 20, 19]], groups="abc")
    for margin in (None, 0.3):
        rows = excess_rows(counts, counts.n, margin)
        for row, filled in zip(rows, _filled_shares(counts, counts.n, margin, None), strict=True):
            np.testing.assert_equal((row.low, row.high, row.verdict, row.side), tuple(filled))


# --- the run ---------------------------------------------------------------------------------------------------------


@pytest.mark.pages
def test_a_run_of_counts_is_scored_shown_verified_compared_and_gated(tmp_path: Path) -> None:
    run = api.import_counts(written(tmp_path, PLAIN), tmp_path / "a", name="a model")
    other = api.import_counts(written(tmp_path, PLAIN.replace("42", "12")), tmp_path / "b", name="another")
    page = (tmp_path / "a" / "report.html").read_text()
    assert "No image was looked at here" in page
    assert "one leans to man and one to woman" not in page
    assert "one leans to man and one leans to woman; for one the images cannot tell" in page
    assert api.open_run(tmp_path / "a").scores.equals(run.scores)
    assert api.verify_run(run, recompute=True) == 7
    (differing,) = api.compare(run, other, out=tmp_path / "compared")
    assert "hold counts" in differing.unpaired
    assert (tmp_path / "compared" / "comparison.html").exists()
    limits = {"rules": [{"metric": "share", "component": "share", "group": "man", "at_most": 0.98}]}
    assert api.gate(run, limits).outcome == "holds"
    fifths = api.gate(run, {"rules": [{"four_fifths": 0.8}]})
    assert fifths.table.set_index("concept").outcome.to_dict() == {
        "doctor": "broken", "nurse": "broken", "cook": "undecided", "": "undecided",
    }  # fmt: skip
    assert "leans to woman" in api.model_card(run)


def test_slopes_stand_where_settings_are_numbers(tmp_path: Path) -> None:
    scores = api.import_counts(written(tmp_path, SETTINGS), tmp_path / "run").scores
    slopes = scores[(scores.component == "slope") & (scores.group == "man")].set_index("concept")
    assert slopes.side.to_dict() == {"doctor": "man", "cook": "woman"}
    words = SETTINGS.replace("guidance 1.5", "low").replace("guidance 7.5", "high")
    scores = api.import_counts(written(tmp_path, words), tmp_path / "words").scores
    assert scores[scores.component == "slope"].reason.str.contains("not numbers").all()


def test_the_same_table_again_is_nothing_new_and_another_needs_another_place(tmp_path: Path) -> None:
    api.import_counts(written(tmp_path, PLAIN), tmp_path / "run")
    before = (tmp_path / "run" / "scores.parquet").read_bytes()
    api.import_counts(written(tmp_path, PLAIN), tmp_path / "run")
    assert (tmp_path / "run" / "scores.parquet").read_bytes() == before
    with raises(RunMismatchError, code=Code.MISMATCH, match="'counts'"):
        api.import_counts(written(tmp_path, PLAIN.replace("42", "41")), tmp_path / "run")


def test_a_changed_table_is_told(tmp_path: Path) -> None:
    run = api.import_counts(written(tmp_path, PLAIN), tmp_path / "run")
    stored = tmp_path / "run" / "counts.parquet"
    content = bytearray(stored.read_bytes())
    content[40] ^= 1
    stored.write_bytes(content)
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"counts\.parquet"):
        api.verify_run(run)


def test_what_takes_images_says_so_in_a_line(tmp_path: Path) -> None:
    run = api.import_counts(written(tmp_path, PLAIN), tmp_path / "run")
    for ask in (
        lambda: api.score_run(run.url, encoder="reference"),
        lambda: api.read_run(run.url, reader="reference"),
        lambda: api.plan(pilot=run.url),
        lambda: ratable_images(run, rated_of(run)),
    ):
        with raises(RunNotFoundError, code=Code.UNSUPPORTED) as caught:
            ask()
        assert "\n" not in str(caught.value)
    with raises(SuiteError, code=Code.UNSUPPORTED):
        api.audit(suite=run.suite, out=tmp_path / "audit")


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("concept,group,n\n", Code.TOO_FEW, r"counts\.csv"),
        ("", Code.MISSING, r"counts\.csv, line 1: .*concept"),
        ("concept,group,n\na,x,1\na,y,-3\n", Code.OUT_OF_RANGE, "line 3, n: .*-3"),
        ("concept,group,n\na,x,1\na,y,2.5\n", Code.WRONG_TYPE, "line 3, n: .*'2.5'"),
        ("concept,group,n\na,x,1\na,y\n", Code.WRONG_TYPE, "line 3, n: .*None"),
        ("concept,group,n\na,x,1\na,y,2\nb,x,3\n", Code.MISSING, "concept b: .*y"),
        ("concept,group,n\na,x,1\na,y,2\na,x,3\n", Code.DUPLICATE, "line 4: a, x .*line 2"),
        ("concept,group,n,model\na,x,1,m\n", Code.UNKNOWN_NAME, "line 1: .*'model'"),
        ("concept,n\na,1\n", Code.MISSING, "line 1: .*group"),
        ("concept,group,n\na,x,1\nb,x,1\n", Code.TOO_FEW, "group: found x;"),
        ("concept,group,n\na,x,1\na,discarded,1\n", Code.TOO_FEW, "found x, discarded;"),
        ("concept,group,n\n,x,1\n", Code.MISSING, "line 2, concept"),
        ("concept,group,n,setting\na,x,1,\na,y,1,s\n", Code.MISSING, "line 2, setting"),
        ("concept,group,n\na,x,99999999999999999999\na,y,1\n", Code.OUT_OF_RANGE, "line 2, n: .*9999"),
        ("concept,group,n\na,x\x00,1\na,y,1\n", Code.MALFORMED, r"counts\.csv"),
        ("concept,group,n\na,x,84 %\na,y,1\n", Code.WRONG_TYPE, "'84 %'.*a share"),
        ("concept,group,n\na,x,0.84\na,y,1\n", Code.WRONG_TYPE, r"0\.84'.*a share"),
        ("concept,x,y\na,1,2\n", Code.UNKNOWN_NAME, "make a row of each number: concept, 'x'"),
        ("Concept,group,n\na,x,1\na,y,1\n", Code.UNKNOWN_NAME, "rename it to concept"),
        ("concept,group,n\na,x,1\nA,y,1\n", Code.MISSING, "concept a, .*beside A"),
        ("concept,group,n\na,x,1\na,y,2\nb,x,3\nb,y,4\nTotal,x,4\nTotal,y,6\n", Code.CONFLICT, "concept Total"),
        ("concept,group,n\na,x,1\na,y,2\nTotal,x,1\nTotal,y,2\n", Code.CONFLICT, "concept Total"),
        ("concept,group,n\na,x,1.000\na,y,2\n", Code.MALFORMED, r"line 2, n: .*'1\.000'"),
        ("concept,group,n\na,x,12'000\na,y,2\n", Code.MALFORMED, "thousands"),
        ("concept;group;n\na;x;1\u202f000\na;y;2\n", Code.MALFORMED, "thousands"),
        ("concept,group,count\na,x,1\n", Code.UNKNOWN_NAME, "rename it to n$"),
    ],
)
def test_a_bad_table_is_refused_in_a_line(tmp_path: Path, text: str, code, message) -> None:
    file = written(tmp_path, text)
    with raises(ImportManifestError, code=code, match=message) as caught:
        api.import_counts(file, tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_the_command_takes_either_images_or_counts(tmp_path: Path) -> None:
    file, runner = str(written(tmp_path, PLAIN)), CliRunner()
    done = runner.invoke(app, ["import", "--counts", file, "--out", str(tmp_path / "run")])
    assert done.exit_code == 0
    assert "1 to man" in done.output
    for words, code, message in (
        (["import"], Code.MISSING, "--counts FILE"),
        (["import", str(tmp_path), "--counts", file], Code.CONFLICT, "a folder"),
        (["import", "--counts", file, "--suite", "mcas"], Code.CONFLICT, "--suite"),
        (["import", "--counts", str(tmp_path / "none.csv")], Code.UNREADABLE, r"none\.csv"),
    ):
        with raises(ClinometerError, code=code, match=message):
            runner.invoke(app, words, catch_exceptions=False)


LIMITED = """
import re, sys
from clinometer.cli import main
sys.argv = ["clinometer", "import", "--counts", sys.argv[1], "--out", sys.argv[2]]
try:
    main()
finally:
    # this program's own peak: that of getrusage is inherited from whoever started it
    print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1], file=sys.stderr)
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("concepts", "settings", "groups", "discarded", "most"),
    [
        pytest.param(4_000, 2, 3, True, 5.5e5, id="many concepts"),
        (50, 1, 400, False, 5e5),
        (2, 1, 10_000, False, 5e5),
    ],
)
def test_a_large_table_takes_little_memory(
    tmp_path: Path, concepts: int, settings: int, groups: int, discarded: bool, most: float
) -> None:
    """32,000 rows, a third of what is read; and shapes in which a matrix of all groups would not fit."""
    rng, lines = np.random.default_rng(0), ["concept,setting,group,n"]
    for c, s in product(range(concepts), range(settings)):
        names = [f"group {g}" for g in range(groups)] + ["discarded"] * discarded
        lines += [
            f"concept {c},guidance {s}.5,{name},{n}" for name, n in zip(names, rng.poisson(40, len(names)), strict=True)
        ]
    (tmp_path / "counts.csv").write_text("\n".join(lines) + "\n")
    words = [sys.executable, "-c", LIMITED, str(tmp_path / "counts.csv"), str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=900)
    assert float(done.stderr.splitlines()[-1]) < most  # kB
    assert (tmp_path / "run" / "report.html").stat().st_size < 20e6
    assert len(api.open_run(tmp_path / "run").scores) > 2 * concepts * settings * groups


def test_a_table_of_more_rows_than_are_read_is_refused(tmp_path: Path) -> None:
    lines = [f"c{c},{group},1" for c in range(50_001) for group in "ab"]
    with raises(ImportManifestError, code=Code.TOO_MANY, match="100,000"):
        api.import_counts(written(tmp_path, "\n".join(["concept,group,n", *lines])), tmp_path / "run")


@pytest.mark.thorough
def test_a_page_of_many_groups_and_concepts_says_where_the_others_are(tmp_path: Path) -> None:
    lines = [f"c{c},g{g},{1 + (c * g) % 7}" for c in range(101) for g in range(60)]
    run = api.import_counts(written(tmp_path, "\n".join(["concept,group,n", *lines])), tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    assert "1 more are in scores.csv" in page
    assert "the shares of 10 more groups" in page
    assert f"The first 10,000 of {len(run.scores):,}" in page


def test_a_separator_at_the_end_of_every_line_is_no_column(tmp_path: Path) -> None:
    file = written(tmp_path, "concept,group,n,\na,x,1,\na,y,2,\n")
    assert read_counts(file) == {("a", "", "x"): 1, ("a", "", "y"): 2}


def test_accents_apart_from_their_letters_name_the_same_concept(tmp_path: Path) -> None:
    text = "concept,group,n\ninfirmi\u00e8re,man,3\ninfirmie\u0300re,woman,9\n"
    assert api.import_counts(written(tmp_path, text), tmp_path / "run").suite.concepts == ("infirmi\u00e8re",)


# --- settings that are no numbers


PROMPTS = "concept,setting,group,n\n" + "".join(
    f"{concept},{setting},{group},{n}\n"
    for concept, counts in {
        "ceo": (7, 3, 0, 6, 0, 4),
        "nurse": (10, 0, 0, 10, 0, 0),
        "swe": (0, 10, 0, 3, 4, 3),
    }.items()
    for (setting, group), n in zip(product(("plain", "diverse"), ("woman", "man", "both")), counts, strict=True)
)
"""Three cells of the labels of arXiv 2509.00849."""


def test_settings_that_are_no_numbers_are_tested_by_concept_and_corrected(tmp_path: Path) -> None:
    run = api.import_counts(written(tmp_path, PROMPTS), tmp_path / "run")
    rows = run.scores.query("component == 'by_setting'").set_index("concept")
    assert rows.p.to_dict() == pytest.approx({"ceo": 0.0217, "nurse": 1.0, "swe": 0.0108}, abs=5e-5)
    assert rows.q.to_dict() == pytest.approx({"ceo": 0.0325, "nurse": 1.0, "swe": 0.0325}, abs=5e-5)
    assert rows.p_exact.all()
    assert (rows.verdict == "").all()  # 0 is not what equal shares give
    assert np.isnan(rows.value["nurse"])
    assert rows.reason["nurse"] == "all images are of one group"
    chi = run.scores.query("component == 'by_setting_chi_squared'").set_index("concept")
    assert chi.p["ceo"] == pytest.approx(0.0291, abs=5e-5)
    assert chi.q.isna().all()
    page = (Path(run.url) / "report.html").read_text()
    assert "Freeman and Halton" in page
    assert "0.022" in page


def test_settings_that_are_numbers_have_slopes_and_no_such_test(tmp_path: Path) -> None:
    run = api.import_counts(written(tmp_path, SETTINGS), tmp_path / "run", report=False)
    assert not run.scores.component.str.startswith("by_setting").any()
    assert (run.scores.component == "slope").any()


@pytest.mark.parametrize("written_as", ["-", "NULL", "n.a.", "#NA", "\N{EM DASH}"])
def test_a_group_that_nobody_could_tell_is_discarded(tmp_path: Path, written_as: str) -> None:
    file = written(tmp_path, f"concept,group,n\na,x,3\na,y,4\na,{written_as},5\n")
    assert read_counts(file) == {("a", "", "x"): 3, ("a", "", "y"): 4, ("a", "", "discarded"): 5}
