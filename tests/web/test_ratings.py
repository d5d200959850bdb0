"""Raters, organisers and strangers: what counts, what is kept, and what nobody can do."""

from __future__ import annotations

import io
import re
import shutil
from collections import Counter
from datetime import timedelta

import pandas as pd
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

import clinometer as cm
from clinometer.errors import Code, RatingsError
from clinometer.metrics.readers import rated_group_shares
from clinometer.ratings import ratings_of, readings_of
from clinometer.studies import rated_of
from clinometer.web.database import Answer, Invitation, Task, Turn, now, reading, writing
from clinometer.web.database import Rater as Rated
from clinometer.web.ratings.raters import SKILLS, add_demo
from clinometer.web.ratings.tasks import TaskSpec, answers_of, invite
from clinometer.web.security import kept_key
from tests.pipeline.engine_toys import Glance
from tests.raising import raises
from tests.web.rating import Rater, make, place_in, token_in
from tests.web.serving import HTML, client, ids


@pytest.fixture
def served(runs, tmp_path):
    shutil.copytree(runs / "step-900", tmp_path / "runs/step-900")
    browser = client(tmp_path / "runs", cache=tmp_path / "cache")
    return browser, cm.open_run(tmp_path / "runs/step-900")


def kept(browser):
    with reading(browser.app.state.ratings.engine) as session:
        return session.scalars(select(Answer)).all()


# --- raters ----------------------------------------------------------------------------------------------------------


def test_consent_comes_first(served):
    browser, run = served
    _, link = make(browser, run, consent="We keep your answers.", warning="Pictures of people.")
    page = browser.get(f"/join/{link}").text
    assert "We keep your answers." in page
    assert "Pictures of people." in page
    assert "/picture/" not in page


def test_a_task_is_rated_to_its_end(served):
    browser, run = served
    _, link = make(browser, run, repeats=0.5)
    rater = Rater(browser.app, link)
    count = rater.answer_all(lambda place: "man" if place % 2 else "woman")
    page = rater.page()
    assert count > 5
    assert f"All {count} answers are saved" in page
    with reading(browser.app.state.ratings.engine) as session:
        turns = session.scalars(select(Turn).order_by(Turn.place)).all()
        assert [turn.place for turn in turns] == list(range(1, count + 1))
        assert sum(turn.repeat for turn in turns) >= 1
        for turn in (turn for turn in turns if turn.repeat):
            first = next(each for each in turns if each.item_id == turn.item_id)
            assert first.place < turn.place


def test_orders_are_each_raters_own(served):
    browser, run = served
    _, link = make(browser, run, images=8, repeats=0.0)
    for _ in range(2):
        Rater(browser.app, link)
    with reading(browser.app.state.ratings.engine) as session:
        orders = {}
        for turn in session.scalars(select(Turn).order_by(Turn.place)):
            orders.setdefault(turn.rater_id, []).append(turn.item_id)
    first, second = orders.values()
    assert first != second
    assert sorted(first) == sorted(second)


def test_an_answer_counts_once(served):
    browser, run = served
    _, link = make(browser, run)
    rater = Rater(browser.app, link)
    page = rater.page()
    for answer in ("man", "man", "woman"):  # a double click, and a second tab
        assert rater.answer(answer, page).status_code == 200
    assert [each.answer for each in kept(browser)] == ["man"]


def test_the_last_answer_can_be_undone_once(served):
    browser, run = served
    _, link = make(browser, run)
    rater = Rater(browser.app, link)
    for answer in ("man", "woman"):
        rater.answer(answer)
    for _ in range(2):
        rater.undo(2)
    assert [each.answer for each in kept(browser)] == ["man"]
    assert place_in(rater.page()) == 2
    rater.answer("cannot tell")
    assert [each.answer for each in kept(browser)] == ["man", "cannot tell"]


def test_a_rater_comes_back_to_where_they_were(served):
    browser, run = served
    _, link = make(browser, run)
    rater = Rater(browser.app, link)
    rater.answer("man")
    again = client(run.url, cache=browser.app.state.settings.cache)  # another server, another browser
    assert place_in(again.get(rater.address).text) == 2


def test_nothing_of_the_machine_is_shown(served):
    browser, run = served
    _, link = make(browser, run)
    rater = Rater(browser.app, link)
    page = rater.page()
    names = {sample.id for sample in run.plan} | {sample.prompt for sample in run.plan} | {run.url, "painter", "eye"}
    assert not [name for name in names if name in page]
    picture = rater.browser.get(re.search(r'src="(/rate/[^"]+)"', page)[1])
    assert (picture.status_code, picture.headers["content-type"]) == (200, "image/webp")


@pytest.mark.parametrize(("answer", "fields"), [("kings", {}), ("man", {"place": 3}), ("man", {"place": 999})])
def test_what_is_no_answer_is_refused(served, answer, fields):
    browser, run = served
    _, link = make(browser, run)
    rater = Rater(browser.app, link)
    assert rater.answer(answer, **fields).status_code == 400
    assert not kept(browser)


def test_items_want_so_many_raters(served):
    browser, run = served
    _, link = make(browser, run, raters_each=1, items_each=3, repeats=0.0)
    counts = []
    while True:
        rater = Rater(browser.app, link)
        if "as many answers as were asked for" in rater.joined.text:
            break
        counts.append(rater.answer_all(lambda _: "man"))
    with reading(browser.app.state.ratings.engine) as session:
        items = [item for item in session.scalars(select(Task)).one().items if not item.attention]
    checks = 2
    assert sum(count - checks for count in counts) == len(items)


def later(browser, name=None):
    """Let three hours pass for what a rater did, all of them where none is named, without waiting."""
    with writing(browser.app.state.ratings.engine) as session:
        for rater in session.scalars(select(Rated)).all():
            if name in (None, rater.name):
                rater.consented -= timedelta(hours=3)
                for answer in session.scalars(select(Answer).join(Turn).where(Turn.rater_id == rater.id)):
                    answer.given -= timedelta(hours=3)


def test_consent_without_an_answer_gives_its_place_back(served):
    browser, run = served
    _, link = make(browser, run, raters_each=1, most=1)
    absent = Rater(browser.app, link)
    assert browser.get(f"/join/{link}").status_code == 403
    later(browser)
    assert browser.get(f"/join/{link}").status_code == 200
    came = Rater(browser.app, link)
    assert came.answer_all(lambda _: "man") > 0
    later(browser)
    assert browser.get(f"/join/{link}").status_code == 403  # who answered keeps the place
    assert place_in(absent.page()) == 1  # who comes back late can still answer


def test_a_full_task_counts_answers(served):
    browser, run = served
    _, link = make(browser, run, raters_each=1, repeats=0.0)
    first = Rater(browser.app, link)
    for _ in range(3):
        first.answer("man")
    waits = Rater(browser.app, link).joined.text
    assert "Those that they leave unanswered become free again after 2 hours" in waits
    later(browser)
    second = Rater(browser.app, link)
    with reading(browser.app.state.ratings.engine) as session:
        turns = session.scalars(select(Turn)).all()
        rated = {item.id for item in session.scalars(select(Task)).one().items if not item.attention}
        answered = {turn.item_id for turn in turns if session.get(Answer, turn.id)} & rated
        given = {turn.item_id for turn in turns if turn.rater_id != turns[0].rater_id} & rated
    assert given == rated - answered
    second.answer_all(lambda _: "woman")
    later(browser)
    assert "as many answers as were asked for" in Rater(browser.app, link).joined.text


def test_who_still_answers_keeps_the_items(served):
    """The time runs from the last answer, not from consent."""
    browser, run = served
    _, link = make(browser, run, raters_each=1)
    rater = Rater(browser.app, link)
    later(browser)
    rater.answer("man")
    assert "free again" in Rater(browser.app, link).joined.text


def test_a_page_goes_on_where_its_server_starts_anew(served):
    """The key of sessions is kept: the token of a page that was open before is still good."""
    browser, run = served
    cache = browser.app.state.settings.cache
    before = client(run.url, cache=cache, session_key=kept_key(cache))
    _, link = make(before, run)
    rater = Rater(before.app, link)
    page = rater.page()
    rater.browser = TestClient(
        client(run.url, cache=cache, session_key=kept_key(cache)).app,
        cookies=rater.browser.cookies,
        follow_redirects=True,
    )
    assert rater.answer("man", page).status_code == 200
    assert [each.answer for each in kept(browser)] == ["man"]


def test_an_invitation_is_taken_back_when_that_is_said_twice(served):
    browser, run = served
    task, link = make(browser, run)
    Rater(browser.app, link)
    page = browser.get(f"/ratings/{task}").text
    address = re.search(r'href="(/ratings/\w+/invitations/\d+/revoke)"', page)[1]
    asked = browser.get(address).text
    assert "the raters who joined with it (1) cannot continue" in asked
    assert browser.get(f"/join/{link}").status_code == 200
    browser.post(address, data={"csrf_token": token_in(asked)})
    assert browser.get(f"/join/{link}").status_code == 403
    assert browser.get(f"/ratings/{task}/invitations/999/revoke").status_code == 404
    assert browser.get(f"/ratings/{task}/raters/nobody/withdraw").status_code == 404


# --- strangers -------------------------------------------------------------------------------------------------------


def test_other_raters_items_cannot_be_seen(served):
    browser, run = served
    _, link = make(browser, run)
    one, other = Rater(browser.app, link), Rater(browser.app, link)
    one.answer("man")
    assert other.browser.get(f"{other.address}/picture/2/0").status_code == 404
    assert one.browser.get(f"{one.address}/picture/2/0").status_code == 200
    assert one.browser.get(f"{one.address}/picture/1/9").status_code == 404
    assert one.browser.get(f"{one.address}x").status_code == 404
    assert one.browser.get("/rate/../../etc/passwd").status_code in (400, 404)


def test_links_expire_and_are_taken_back(served):
    browser, run = served
    _, link = make(browser, run)
    rater = Rater(browser.app, link)
    with writing(browser.app.state.ratings.engine) as session:
        session.scalars(select(Invitation)).one().expires = now() - timedelta(seconds=1)
    assert "expired" in rater.page()
    assert rater.browser.get(f"/join/{link}").status_code == 403
    assert "expired" in rater.browser.get(f"/join/{link}").text
    with writing(browser.app.state.ratings.engine) as session:
        held = session.scalars(select(Invitation)).one()
        held.expires, held.revoked = now() + timedelta(days=1), now()
    assert "withdrawn" in rater.page()
    assert browser.get("/join/unknown-token-of-some-length").status_code == 404


def test_an_invitation_lets_in_so_many(served):
    browser, run = served
    _, link = make(browser, run, most=1)
    Rater(browser.app, link)
    assert browser.get(f"/join/{link}").status_code == 403


def test_a_token_is_for_one_task(served):
    browser, run = served
    one, link = make(browser, run)
    make(browser, run)
    Rater(browser.app, link).answer("man")
    with reading(browser.app.state.ratings.engine) as session:
        (item,) = {turn.item.task_id for turn in session.scalars(select(Turn))}
    assert item == one


@pytest.mark.parametrize("forged", ["", "x", "ä" * 20])
def test_a_forged_csrf_token_writes_nothing(served, forged):
    browser, run = served
    task, link = make(browser, run)
    rater = Rater(browser.app, link)
    assert rater.answer("man", csrf_token=forged).status_code == 403
    assert browser.post(f"/ratings/{task}/close", data={"csrf_token": forged}).status_code == 403
    assert not kept(browser)


def test_html_is_text_everywhere(served):
    browser, run = served
    answers = (("man", HTML), (HTML, HTML))
    task, link = make(browser, run, title=HTML, question=HTML, consent=HTML, warning=HTML, answers=answers)
    rater = Rater(browser.app, link)
    pages = [browser.get(f"/join/{link}").text, rater.page(), rater.answer(HTML).text]
    pages += [browser.get(address).text for address in (f"/ratings/{task}", "/ratings")]
    for page in pages:
        assert "<script>alert" not in page
        assert "&lt;script&gt;" in page


def test_an_organisers_pages_are_not_for_raters(runs, tmp_path):
    from tests.web.serving import HASH

    browser = client(runs, cache=tmp_path, password_hash=HASH)
    run = cm.open_run(runs / "step-900")
    task, link = make(browser, run)
    rater = Rater(browser.app, link)
    assert rater.answer("man").status_code == 200
    rater.browser.follow_redirects = False
    token = token_in(rater.page())
    for address in ("/ratings", f"/ratings/{task}", f"/ratings/{task}/answers.csv", "/ratings/new"):
        assert rater.browser.get(address).status_code == 303
    assert rater.browser.post(f"/ratings/{task}/close", data={"csrf_token": token}).status_code == 401


# --- organisers ------------------------------------------------------------------------------------------------------


def test_a_task_is_made_on_a_page(served):
    browser, _ = served
    browser.follow_redirects = True
    page = browser.get("/ratings/new").text
    fields = {"csrf_token": token_in(page), "title": "T", "question": "Who?", "consent": "Yes", "images": 2}
    assert "Choose at least one run." in browser.post("/ratings/new", data=fields).text
    made = browser.post("/ratings/new", data=fields | {"run": ids(browser)["step-900"]})
    assert made.status_code == 200
    assert "Nobody has joined yet." in made.text
    linked = browser.post(f"{made.url.path}/invite", data={"csrf_token": token_in(made.text)}).text
    link = re.search(r'href="http://testserver(/join/[^"]+)"', linked)[1]
    assert browser.get(link).status_code == 200
    assert link not in browser.get(made.url.path).text  # it is shown once


def test_answers_are_counted_withdrawn_and_exported(served):
    browser, run = served
    browser.follow_redirects = True
    task, link = make(browser, run, images=4)
    raters = [Rater(browser.app, link) for _ in range(3)]
    counts = [rater.answer_all(lambda place: "man" if place % 2 else "woman") for rater in raters]
    page = browser.get(f"/ratings/{task}").text
    assert f"{sum(counts)} answers by people." in page
    assert "Krippendorff" in page
    names = re.findall(r"/raters/(\w+)/withdraw", page)
    data = {"csrf_token": token_in(page)}
    browser.post(f"/ratings/{task}/export", data=data)
    assert ratings_of(run).rater.nunique() == 3
    asked = browser.get(f"/ratings/{task}/raters/{names[0]}/withdraw").text  # it is asked once more
    assert f"Withdraw the {counts[0]} answers of {names[0]}?" in asked
    assert "withdrawn" not in raters[0].page()
    browser.post(f"/ratings/{task}/raters/{names[0]}/withdraw", data=data)
    assert "withdrawn" in raters[0].page()
    shown = browser.post(f"/ratings/{task}/export", data=data).text
    assert f"{sum(counts[1:])} answers are in" in shown
    held = ratings_of(cm.open_run(run.url))
    assert names[0] not in set(held.rater)
    scores = cm.open_run(run.url).scores
    assert (scores.metric == "human").any()
    assert "People and the machine" in (run.directory.read_bytes("report.html")).decode()
    assert browser.get(f"/ratings/{task}/answers.csv").text.count("\n") == 1 + sum(counts[1:])


@pytest.mark.thorough
def test_what_people_answered_corrects_what_a_reader_said(served):
    """By the database of ratings, as it is: the answers that its raters gave are those of ``rated_share``."""
    browser, run = served
    browser.follow_redirects = True
    read = cm.read_run(run.url, reader=Glance())["glance"].query("role == 'target'").set_index("id").answer
    assert not (run.scores.component == "rated_share").any()
    task, link = make(browser, run, images=4, repeats=0.0)
    raters = [Rater(browser.app, link) for _ in range(2)]
    for rater in raters:
        rater.answer_all(lambda place: ("man", "woman", "cannot tell")[place % 3])
    page = browser.get(f"/ratings/{task}").text
    browser.post(f"/ratings/{task}/export", data={"csrf_token": token_in(page)})
    run = cm.open_run(run.url)
    held = ratings_of(run).merge(run.samples[["id", "concept"]], left_on="item", right_on="id")
    held = held[held.attention == ""]
    groups = ["man", "woman", "other"]
    numbers = {group: float(k) for k, group in enumerate(groups)}
    rows = run.scores[(run.scores.component == "rated_share")].set_index(["concept", "group"])
    assert set(rows.index.get_level_values("concept")) == set(held.concept)
    for concept, own in held.groupby("concept"):
        seen = own.pivot(index="rater", columns="item", values="answer").map(lambda answer: numbers.get(answer, 3.0))
        samples = run.samples[(run.samples.concept == concept) & (run.samples.role == "target")].id
        f = read[samples].map(lambda answer: numbers.get(answer, 3.0))
        found = rated_group_shares(seen, f[seen.columns], f.drop(seen.columns), groups=3)
        for group, share in zip(groups, found.shares, strict=True):
            row = rows.loc[(concept, group)]
            assert (row.value, row.low, row.high) == pytest.approx((share.value, share.low, share.high), nan_ok=True)
            assert (row.n_a, row.n_target) == (seen.shape[1], len(samples))
    alpha = run.scores[(run.scores.component == "alpha") & (run.scores.group == "people")]
    assert len(alpha) == 1
    whole = cm.score_run(run.url)  # collecting computes the same rows as scoring again
    pd.testing.assert_frame_equal(whole, run.scores)
    page = run.directory.read_bytes("report.html").decode()
    assert "with people" in page
    assert "Below each picture is the answer of <bdi>glance on groups</bdi>." in page
    shown = Counter(re.findall(r'<span class="answer" title="glance on groups"><bdi>([^<]+)</bdi>', page))
    labels = {run.suite.label_of(group) for group in groups} | {"cannot tell"}
    assert set(shown) <= labels
    assert shown.total() >= len(read)


def test_a_closed_task_takes_no_answer(served):
    browser, run = served
    task, link = make(browser, run)
    rater = Rater(browser.app, link)
    page = rater.page()
    browser.post(f"/ratings/{task}/close", data={"csrf_token": token_in(browser.get(f"/ratings/{task}").text)})
    assert "closed" in rater.answer("man", page).text
    assert not kept(browser)
    browser.post(f"/ratings/{task}/open", data={"csrf_token": token_in(browser.get(f"/ratings/{task}").text)})
    assert rater.answer("man", page).status_code == 200
    assert len(kept(browser)) == 1


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"answers": (("a", "a"),)}, Code.OUT_OF_RANGE),
        ({"answers": (("a", "a"), ("a", "b"))}, Code.OUT_OF_RANGE),
        ({"question": " "}, Code.MISSING),
        ({"raters_each": 0}, Code.OUT_OF_RANGE),
        ({"repeats": 2.0}, Code.OUT_OF_RANGE),
    ],
)
def test_a_task_that_cannot_be_is_refused(wrong, code):
    with raises(RatingsError, code=code):
        TaskSpec(**{"title": "T", "question": "Q", "answers": (("a", "a"), ("b", "b"))} | wrong)


# --- the demonstration -----------------------------------------------------------------------------------------------


def test_simulated_raters_have_the_skill_that_they_are_named_by(served):
    browser, run = served
    engine = browser.app.state.ratings.engine
    task = add_demo(engine, [run])
    assert add_demo(engine, [run]) == task  # it is made once
    with reading(engine) as session:
        held = answers_of(session, session.get(Task, task))
    read, (a, b) = readings_of(run, rated_of(run))["mean"], rated_of(run).groups
    shown = held[held.attention == ""]
    right = [answer == (a if read[item] else b) for item, answer in zip(shown["item"], shown.answer, strict=True)]
    by_rater = shown.assign(right=right).groupby("rater").right.mean()
    assert set(by_rater.index) == {f"skill-{100 * skill:.0f}" for skill in SKILLS}
    assert by_rater["skill-98"] > by_rater["skill-60"]
    page = browser.get(f"/ratings/{task}").text
    assert "skill-98" in page


@pytest.mark.thorough
def test_simulated_raters_are_marked_and_never_pooled(served):
    """One person rates beside the simulated ones: whatever counts people counts one."""
    browser, run = served
    browser.follow_redirects = True
    engine = browser.app.state.ratings.engine
    task = add_demo(engine, [run])
    with writing(engine) as session:
        link = invite(session, session.get(Task, task))
    answered = Rater(browser.app, link).answer_all(lambda _: "woman")
    page = browser.get(f"/ratings/{task}").text
    assert f"{answered} answers by people." in page
    assert page.count(">simulated</span>") == len(SKILLS)
    assert "Simulated raters are made up" in page
    assert f">and {len(SKILLS)} simulated</span>" in browser.get("/ratings").text
    table = pd.read_csv(io.StringIO(browser.get(f"/ratings/{task}/answers.csv").text))
    assert table.groupby("simulated").rater.nunique().to_dict() == {False: 1, True: len(SKILLS)}
    shown = browser.post(f"/ratings/{task}/export", data={"csrf_token": token_in(page)}).text
    assert f"{answered} answers and, separately, {len(table) - answered} by simulated raters are in" in shown
    held = cm.open_run(run.url)
    assert ratings_of(held).groupby("simulated").rater.nunique().to_dict() == {False: 1, True: len(SKILLS)}
    alpha = held.scores.query("component == 'alpha'").set_index("metric").n_a
    assert alpha.to_dict() == {"human": 1, "simulated": len(SKILLS)}
    women = held.scores.query("metric == 'human' and component == 'fraction' and group == 'woman'").value
    assert (women == 1).all()
    report = run.directory.read_bytes("report.html").decode()
    assert "Simulated raters and the machine" in report
    assert "Nobody gave these answers." in report
    people = browser.get(f"/runs/{ids(browser)['step-900']}/people").text
    assert "1 rater looked at" in people
    assert f"{len(SKILLS)} simulated raters looked at" in people


@pytest.mark.thorough
def test_the_explorer_marks_what_simulated_raters_said(served):
    browser, run = served
    task = add_demo(browser.app.state.ratings.engine, [run])
    with reading(browser.app.state.ratings.engine) as session:
        n = sum(not item.attention for item in session.get(Task, task).items)
    asked = {"run": ids(browser)["step-900"], "per": 96}
    page = browser.get("/explore", params=asked).text
    assert page.count("<span>simulated: ") >= n
    assert "<span>people: " not in page
    assert ">rated by people<" not in page
    assert "people-say" not in browser.get("/explore", params=asked | {"people": "rated"}).text
    token = token_in(browser.get(f"/ratings/{task}").text)
    browser.post(f"/ratings/{task}/export", data={"csrf_token": token})
    assert "Pictures that simulated raters rated" in browser.get(f"/runs/{asked['run']}/people").text
    assert browser.get("/explore", params=asked | {"people": "simulated"}).text.count("<span>simulated: ") >= n
    item = next(item.name for item in session.get(Task, task).items if not item.attention)
    assert "simulated raters see" in browser.get(f"/runs/{asked['run']}/pictures/{item}").text


def test_a_demonstration_needs_a_run(served):
    with raises(RatingsError, code=Code.TOO_FEW):
        add_demo(served[0].app.state.ratings.engine, [])
