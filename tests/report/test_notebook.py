"""What a notebook shows of what was found, and what is there to go on with."""

import json
import re
import textwrap

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import clinometer as cm
from clinometer.cli.documents import document_of, json_schema
from clinometer.pipeline.results import run_repr_html
from clinometer.report.figures import Ink
from clinometer.suites import suite_from_mapping
from tests import quick
from tests.report.page import Page
from tests.report.synthetic import report_input
from tests.toys import Eye, Painter, toy_suite

HOSTILE = "<script>alert(1)</script> & more"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of a suite whose title would be a script."""
    place = tmp_path_factory.mktemp("notebook")
    suite = suite_from_mapping(toy_suite(target=12, attribute=6).model_dump() | {"title": HOSTILE}, source="s")
    model = Painter(name="<b>painter</b>")
    return [quick.audit(model, suite, place / f"run{seed}", encoder=Eye(), seed=seed) for seed in (0, 1)]


def shown(found):
    """What a notebook gets, read: nothing in it is anybody's markup but ours."""
    html = found._repr_html_()
    assert "<script" not in html
    assert "<b>" not in html
    return Page(html), html


def test_a_scored_run():
    report = report_input()
    html = run_repr_html(
        suite=report.suite, model_card=report.model_card, samples=report.samples, scores=report.scores,
        planned=752, place="runs/demo",
    )  # fmt: skip
    page = Page(html)
    assert len(page.find("tr")) == 1 + 8
    assert "reference/emoji-diffusion" in html
    assert "737 images of 752, 3 blank, 4 failed, 8 refused" in html
    assert "12 to men" in html
    cells = [e.text for e in page.find("td")]
    assert cells[:5] == ["farmer", "+0.28", "[0.23, 0.33]", "< 0.001", "leans to men"]


def test_a_run_not_scored_yet():
    report = report_input()
    html = run_repr_html(suite=report.suite, model_card={}, samples=report.samples[:0], planned=752)
    assert "Not scored yet" in html
    assert "0 images of 752" in html


def test_a_comparison_says_which_leans_more(runs):
    compared = cm.compare(*runs)
    page, html = shown(compared)
    assert len(page.find("tbody")) == 1
    assert [row.text for row in page.find("caption")] == ["Image part of run1 minus image part of run0"]
    assert "run1 compared with run0: " in repr(compared)
    assert repr(compared) in html.replace("&#39;", "'")
    assert compared.table.columns[:2].tolist() == ["first", "second"]
    assert len(compared.table) == len(compared[0].scores)
    assert repr(compared[0]).endswith("rows, not paired)")


def test_a_gate_shows_what_does_not_hold(runs):
    policy = {"title": HOSTILE, "rules": [{"metric": "mcas", "at_most": 0}, {"metric": "mcas", "within": 9}]}
    judged = cm.gate(runs[0], policy)
    page, html = shown(judged)
    open_rows = judged.table[judged.table.outcome != "holds"]
    assert len(page.find("tr")) == 1 + len(open_rows)
    assert "mcas within ±9: holds for all 4 numbers." in html
    assert "The gate is broken" in html


def test_a_plan_is_a_table(runs):
    page, html = shown(cm.plan(pilot=runs[0].url))
    assert len(page.find("tr")) == 1 + len(runs[0].suite.targets)
    assert "The suite as it stands draws" in html
    assert len(shown(cm.plan("mcas"))[0].find("tr")) == 1 + 7


@pytest.mark.thorough
def test_a_sweep_is_a_row_a_setting(tmp_path):
    suites = {"toy": toy_suite(target=3, attribute=3)}
    grid = {"axes": {"model": ["a", "b"], "suite": ["toy"]}, "resamples": 99, "report": False}
    models = {name: Painter(name=name) for name in "ab"}
    swept = cm.sweep(grid, tmp_path / "swept", models=models, suites=suites, encoder=Eye())
    page, html = shown(swept)
    assert len(page.find("tr")) == 1 + 2
    assert "2 cells, 2 finished" in html
    held = json.loads(document_of(swept).as_json())  # what a script gets of it
    import jsonschema  # it takes a second, which each process of the tests would wait

    jsonschema.validate(held, json_schema())
    assert (held["kind"], held["cells"], len(held["rows"])) == ("sweep", 2, len(swept.table))


def test_verdicts_are_a_row_a_concept_and_all_others_are_beside_them(runs):
    run = runs[0]
    verdicts, everything = run.verdicts, run.all_verdicts
    assert verdicts.concept.tolist() == [target.name for target in run.suite.targets]
    assert {*verdicts.component} == {"image_part"}
    assert {*verdicts.encoder} == {"mean"}
    assert verdicts.columns.tolist() == everything.columns.tolist() == run.scores.columns.tolist()
    assert set(everything.verdict) <= {*run.scores.verdict} - {""}
    assert len(verdicts) < len(everything) == (run.scores.verdict != "").sum()
    assert len(verdicts.merge(everything)) == len(verdicts)


@pytest.mark.thorough
def test_figures_are_those_of_the_report_and_one_may_go_on_with_them(runs, tmp_path):
    figures = runs[0].figures
    assert {"leaning", "forest", "components"} <= set(dir(figures))
    drawn = figures.leaning()
    assert isinstance(drawn, Figure)
    inks = {value for name, value in vars(Ink).items() if not name.startswith("_")}
    texts = [text for axes in drawn.axes for text in axes.texts]
    assert texts
    assert not inks & {to_hex(text.get_color()) for text in texts}
    drawn.axes[0].set_title("My own")
    drawn.set_size_inches(4, 4)
    drawn.savefig(tmp_path / "mine.pdf")
    assert figures.leaning().axes[0].get_title() != "My own"  # each call draws again
    files = [name for name in cm.export(runs[0], tmp_path / "paper") if re.fullmatch(r"figures/.*\.svg", name)]
    assert len(files) == len(set(dir(figures)) - {"leaning"})  # files are named by what they show
    with pytest.raises(AttributeError, match="no figure 'forrest'; it has forest, "):
        figures.forrest()


@pytest.mark.thorough
@pytest.mark.slow
def test_a_real_notebook_shows_what_was_found_a_bar_and_figures(runs):
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel()
    code = f"""
        import clinometer as cm
        run = cm.open_run({runs[0].url!r})
        assert {{"Run", "audit", "open_run", "push"}} <= set(dir(cm))
        assert len(run.all_verdicts) == (run.scores.verdict != "").sum()
        assert "toprule" in run.to_latex("mcas")
        compared = cm.compare(run, {runs[1].url!r})
        display(run, compared, cm.plan(pilot=run), cm.gate(run, {{"rules": [{{"metric": "mcas", "within": 1e-6}}]}}))
        cm.api.verify_run(run)
        run.figures.leaning()
    """
    try:
        messages = []
        reply = client.execute_interactive(textwrap.dedent(code), output_hook=messages.append, timeout=300)
        assert reply["content"]["status"] == "ok", reply["content"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    pages = [message["content"]["data"]["text/html"] for message in messages
             if message["msg_type"] in ("display_data", "update_display_data")]  # fmt: skip
    bars = [page for page in pages if "<progress" in page or "done in" in page]
    assert sum("<table" in page for page in pages) == 4
    assert "<progress" in bars[0]
    assert "done in" in bars[-1]
    (figure,) = (message["content"]["data"] for message in messages if message["msg_type"] == "execute_result")
    assert "image/png" in figure
