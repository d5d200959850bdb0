"""Trends, comparisons and reports."""

import html
import re
import threading
import time

import pytest

import clinometer as cm
from clinometer.pipeline.comparison_page import comparison_html
from clinometer.web import runs_index
from tests import quick
from tests.web.serving import client, ids


def table(page: str) -> dict[str, list[str]]:
    rows = re.findall(r'<tr><th scope="row"><a[^>]*><bdi>([^<]+)</bdi></a></th>(.*?)</tr>', page)
    return {name: re.findall(r"<td[^>]*>(?:<bdi>)?([^<]*)", cells) for name, cells in rows}


def test_the_numbers_are_those_of_the_runs(browser, runs):
    asked = {"number": "mcas|mcas||", "concept": "concept 0.40", "over": "checkpoint"}
    shown = table(browser.get("/trends", params=asked).text)
    assert list(shown) == ["step-900", "step-1000"]
    for name, (_, value, interval, _) in shown.items():
        scores = cm.open_run(runs / name).scores
        (row,) = scores[
            (scores.metric == "mcas") & (scores.component == "mcas") & (scores.concept == "concept 0.40")
            & (scores.encoder == "mean")
        ].itertuples()  # fmt: skip
        assert float(value.replace("\N{MINUS SIGN}", "-")) == pytest.approx(row.value, abs=0.006)
        low, high = (float(end.replace("\N{MINUS SIGN}", "-")) for end in interval.strip("[]").split(", "))
        assert (low, high) == pytest.approx((row.low, row.high), abs=0.006)


def test_the_figure_tells_the_same_in_words(browser):
    page = browser.get("/trends", params={"over": "checkpoint"}).text
    assert '<svg xmlns="http://www.w3.org/2000/svg"' in page
    assert re.search(r"<desc[^>]*>step-900, step-900: [+\N{MINUS SIGN}]", page)
    assert "style=" not in page


def test_a_number_that_a_run_lacks_is_left_out(browser):
    page = browser.get("/trends", params={"number": "mcas|mcas||", "concept": "concept 0.80"}).text
    assert list(table(page)) == ["step-900"] or table(page)["step-1000"][1] == "\N{EM DASH}"


@pytest.mark.parametrize("over", ["checkpoint", "date", "guidance", "steps"])
def test_every_axis(browser, over):
    response = browser.get("/trends", params={"over": over})
    assert response.status_code == 200
    assert len(table(response.text)) == 2


def test_every_number_can_be_chosen(browser):
    keys = re.findall(r'<option value="([^"]*\|[^"]*)"', browser.get("/trends").text)
    assert len(keys) > 20
    for key in keys[::5]:
        response = browser.get("/trends", params={"number": html.unescape(key)})
        assert response.status_code == 200
        assert f'value="{key}" selected' in response.text


def test_a_comparison_is_the_one_of_the_command(browser, runs):
    known = ids(browser)
    page = browser.get("/compare", params={"run": [known["step-900"], known["step-1000"]]})
    assert page.status_code == 200
    assert page.text == comparison_html(cm.compare(runs / "step-900", runs / "step-1000"))
    assert "sha256-" in page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]


def test_the_baseline_of_a_comparison_is_chosen_by_name(browser, runs):
    known = ids(browser)
    asked = {"run": [known["step-900"]], "baseline": known["step-1000"]}
    page = browser.get("/compare", params=asked)
    assert page.text == comparison_html(cm.compare(runs / "step-1000", runs / "step-900"))
    assert browser.get("/compare", params=asked | {"run": list(known.values())}).text == page.text
    assert browser.get("/compare", params=asked | {"run": known["step-1000"]}).status_code == 400
    choice = browser.get("/runs").text.partition('name="baseline"')[2].partition("</select>")[0]
    assert all(f'<option value="{known[name]}">{name}</option>' in choice for name in known)


@pytest.mark.thorough
def test_a_comparison_that_takes_long_is_made_beside_other_pages_and_once(runs, tmp_path, monkeypatch):
    may_end, calls = threading.Event(), []

    def slow(*compared):
        calls.append(compared)
        may_end.wait(60)
        return compare(*compared)

    compare = runs_index.api.compare
    monkeypatch.setattr(runs_index.api, "compare", slow)
    browser = client(runs, cache=tmp_path)
    browser.app.state.comparing = runs_index.Comparing(patience=0.05)
    known = ids(browser)
    asked = {"run": [known["step-900"], known["step-1000"]]}
    waiting = browser.get("/compare", params=asked)
    assert waiting.status_code == 202
    assert "Comparing the runs" in waiting.text
    assert "0 % is done" in waiting.text
    assert f"/compare?run={known['step-900']}" in html.unescape(waiting.text)
    assert browser.get("/compare", params=asked).status_code == 202
    assert browser.get("/runs").status_code == 200
    may_end.set()
    for _ in range(600):
        page = browser.get("/compare", params=asked)
        if page.status_code == 200:
            break
        time.sleep(0.1)
    assert page.text == comparison_html(compare(runs / "step-900", runs / "step-1000"))
    assert len(calls) == 1


def test_one_run_is_not_compared(browser):
    one = ids(browser)["step-900"]
    assert browser.get("/compare", params={"run": one}).status_code == 400
    twice = browser.get("/compare", params={"run": [one, one]})
    assert twice.status_code == 400
    assert "two runs" in twice.text


def test_runs_of_other_suites_are_not_compared(runs, tmp_path):
    from tests.toys import Eye, Painter, toy_t2iat_suite

    suite = toy_t2iat_suite(neutral=2, attribute=2, stimuli=2)
    quick.audit(Painter(), suite, tmp_path / "other", encoder=Eye())
    browser = client(runs, tmp_path, cache=tmp_path / "cache")
    known = ids(browser)
    response = browser.get("/compare", params={"run": [known["step-900"], known["other"]]})
    assert response.status_code == 409


def test_the_report_is_the_file_of_the_run_in_a_sandbox(browser, runs):
    response = browser.get(f"/runs/{ids(browser)['step-900']}/report")
    assert response.content == (runs / "step-900" / "report.html").read_bytes()
    policy = response.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy
