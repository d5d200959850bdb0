from clinometer.pipeline.reporting import run_repr_html
from tests.report.page import Page
from tests.report.synthetic import report_input


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
