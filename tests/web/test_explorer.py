"""The explorer: filters, order, alignment by noise, addresses."""

import re
import resource
import shutil
from html import unescape

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import clinometer as cm
from clinometer.models.protocols import Card
from clinometer.models.readers import Reading
from clinometer.runs.browse import Reader, part_numbers, piece_of
from clinometer.studies import study_of
from tests import quick
from tests.old_runs import as_of_format_1
from tests.toys import Eye, Painter, toy_suite
from tests.web.serving import client, ids, pictures


def shown(page: str) -> list[str]:
    """Ids of the samples of a page, in order."""
    return re.findall(r'href="/runs/\w+/pictures/(\w+)"', page)


def headings(page: str) -> set[str]:
    """Whose images are on a page."""
    return set(re.findall(r'<h2 id="owner-\d+"><bdi>([^<]+)<', page))


def margins(page: str) -> list[float]:
    return [float(found) for found in re.findall(r'class="by">([\d.]+)<', page)]


@pytest.fixture(scope="module")
def samples(runs):
    return cm.open_run(runs / "step-900").samples


@pytest.fixture(scope="module")
def explored(browser):
    """Explore the first checkpoint by parameters."""
    first = ids(browser)["step-900"]

    def page(**asked):
        response = browser.get("/explore", params={"run": first, "per": 96} | asked)
        assert response.status_code == 200
        return response.text

    return page


def test_images_come_in_the_order_of_the_plan(explored, samples):
    assert shown(explored()) == samples.id.tolist()


def test_pages_follow_each_other(explored, samples):
    pages = [shown(explored(per=24, page=number)) for number in (1, 2, 3)]
    assert [*pages[0], *pages[1], *pages[2]] == samples.id.tolist()
    assert 'rel="next"' not in explored(per=24, page=3)
    assert shown(explored(per=24, page=4)) == []


def test_concepts_and_groups_are_chosen(explored, samples):
    page = explored(of=["target/concept 0.20", "attribute/man"])
    assert shown(page) == samples.id[(samples.concept == "concept 0.20") | (samples.group == "man")].tolist()
    assert shown(explored(of="target/nobody")) == []


def test_as_many_images_read_as_a_group_as_its_share_says(runs, explored):
    scores = cm.open_run(runs / "step-900").scores
    shares = scores[(scores.metric == "share") & (scores.component == "share") & (scores.encoder == "eye")]
    assert len(shares) == 4
    for row in shares.itertuples():
        reads_a = shown(explored(of=f"target/{row.concept}", side="man"))
        assert len(reads_a) == round(row.value * row.n_target)


def test_every_order_is_one(explored):
    chosen = {"of": "target/concept 0.20"}
    assert margins(explored(**chosen, order="unsure")) == sorted(margins(explored(**chosen)))
    assert shown(explored(**chosen, order="sure")) == shown(explored(**chosen, order="unsure"))[::-1]
    assert shown(explored(**chosen, order="typical")) == shown(explored(**chosen, order="unusual"))[::-1]


def test_typical_images_are_near_the_mean_of_their_concept(runs, explored):
    run = cm.open_run(runs / "step-900")
    reader = Reader(run, "eye", study_of(run.suite).reading_words(run.suite))
    pieces = [piece_of(run, part) for part in part_numbers(run)]
    for piece in pieces:
        reader.learn(piece)
    typicality = {piece.columns["id"][row]: seen.typicality for piece in pieces for row, seen in reader.read(piece)}
    ordered = [typicality[each] for each in shown(explored(of="target/concept 0.20", order="typical"))]
    assert ordered == sorted(ordered, reverse=True)


def test_uncertain_images_are_those_of_a_small_margin(explored):
    every = margins(explored())
    limit = sorted(every)[10]
    assert (
        sorted(margins(explored(within=limit + 0.0005)))
        == sorted(every)[: len(margins(explored(within=limit + 0.0005)))]
    )
    assert len(margins(explored(within=limit + 0.0005))) >= 10


def test_checkpoints_stand_in_one_row_by_their_noise(browser, runs):
    known = ids(browser)
    page = browser.get("/explore", params={"run": [known["step-900"], known["step-1000"]], "per": 96}).text
    rows = [re.findall(r"/pictures/(\w+)\"", row) for row in re.findall(r"<tr><th scope=\"row\".*?</tr>", page, re.S)]
    seeds = {name: cm.open_run(runs / name).samples.set_index("id").seed for name in ("step-900", "step-1000")}
    assert len(rows) == 54
    for first, second in rows:
        assert seeds["step-900"][first] == seeds["step-1000"][second]


def test_refusals_are_found_and_shown(browser):
    refusing = ids(browser)["step-1000"]
    page = browser.get("/explore", params={"run": refusing, "status": "refused"}).text
    assert len(shown(page)) == 6
    assert not pictures(page)
    own = browser.get(f"/runs/{refusing}/pictures/{shown(page)[0]}").text
    assert "not allowed here" in own


def test_a_run_of_another_seed_stands_beside_by_rank_and_says_why(runs, tmp_path):
    place = tmp_path / "runs"
    shutil.copytree(runs / "step-900", place / "step-900")
    other = quick.audit(Painter(name="other"), toy_suite(), place / "other", encoder=Eye(), seed=1).samples
    browser, lead = client(place, cache=tmp_path / "cache"), cm.open_run(runs / "step-900").samples
    known = ids(browser)

    def rows(**asked):
        page = browser.get("/explore", params={"run": [known["step-900"], known["other"]]} | asked).text
        assert "started from different noise (seed 1, not 0), so its pictures are shown by rank" in " ".join(
            page.split()
        )
        assert "the same noise became" not in page
        assert "not drawn" not in page
        found = re.findall(r"<tr><th scope=\"row\".*?</tr>", page, re.S)
        return [tuple(re.findall(r"/pictures/(\w+)\"", row)) for row in found]

    by_plan = list(zip(lead.id, other.id, strict=True))  # both plans have the same concepts, each with as many images
    assert rows(per=24) == by_plan[:24]
    assert rows(per=24, page=2) == by_plan[24:48]  # which begins within a concept
    target = lead[lead.role == "target"].concept.iloc[-1]
    asked = {"of": f"target/{target}", "order": "unusual"}
    alone = [shown(browser.get("/explore", params=asked | {"run": known[name]}).text) for name in ("step-900", "other")]
    assert rows(**asked) == list(zip(*alone, strict=True))


def test_score_and_verdict_stand_above(explored, runs):
    scores = cm.open_run(runs / "step-900").scores
    row = scores[(scores.component == "image_part") & (scores.concept == "concept 0.20")].iloc[0]
    page = explored(of="target/concept 0.20")
    assert "image part" in page
    assert f"{abs(row.value):.2f}" in page
    assert row.verdict.split()[0] in page


def test_the_address_is_the_whole_state(explored, browser):
    asked = {"of": ["target/concept 0.20"], "order": "unsure", "side": "woman", "status": "ok", "per": 24}
    page = explored(**asked)
    for said in ('value="woman" selected', 'value="unsure" selected', 'value="ok" selected', "24</option>"):
        assert said in page
    part = browser.get(
        "/explore", params={"run": ids(browser)["step-900"], **asked}, headers={"HX-Target": "view"}
    ).text
    assert part.startswith('<div id="view"')
    assert shown(part) == shown(page)


def test_without_a_run_it_opens_one(browser):
    response = browser.get("/explore")
    assert response.status_code == 303
    assert browser.get(response.headers["location"]).status_code == 200


def test_several_runs_begin_with_their_index(browser, tmp_path):
    assert browser.get("/").headers["location"] == "/runs"
    assert client(tmp_path, cache=tmp_path).get("/").headers["location"] == "/runs"


def test_a_single_run_begins_with_what_leans_furthest_to_either_side(tmp_path):
    run = quick.audit(Painter(), toy_suite(target=20, attribute=20), tmp_path / "runs" / "run", encoder=Eye())
    rows = run.scores.query("metric == 'mcas' and component == 'image_part' and encoder == 'mean'").set_index("concept")
    browser = client(tmp_path / "runs", cache=tmp_path / "cache")
    page = browser.get(browser.get("/").headers["location"]).text
    assert set(rows.verdict) == {"leans"}
    assert headings(page) == {rows.value.idxmax(), rows.value.idxmin()}
    everything = re.search(r'href="([^"]+)">show all concepts', page)[1]
    assert headings(browser.get(f"{unescape(everything)}&per=96").text) > set(rows.index)


def test_an_encoder_without_words_still_says_what_is_typical(tmp_path):
    class Blind:
        card = Card(kind="encoder", name="blind", family="toy/blind")

        def encode_images(self, images):
            return Eye().encode_images(images)

    quick.audit(Painter(), toy_suite(concepts=2), tmp_path / "runs" / "run", encoder=Blind())
    browser = client(tmp_path / "runs", cache=tmp_path / "cache")
    page = browser.get("/explore", params={"run": ids(browser)["run"], "order": "typical"})
    assert page.status_code == 200
    assert shown(page.text)
    assert "Reads as" not in page.text


def test_a_picture_has_its_own_page_with_the_same_noise_of_others(browser, samples):
    known = ids(browser)
    for run in known.values():
        browser.get("/explore", params={"run": run})
    page = browser.get(f"/runs/{known['step-900']}/pictures/{samples.id[0]}").text
    assert str(samples.seed[0]) in page
    assert samples.sha256[0] in page
    assert "The same noise in other runs" in page
    assert known["step-1000"] in page


def test_a_long_reading_shows_how_far_it_is(runs, tmp_path):
    browser = client(runs, cache=tmp_path)
    browser.app.state.shelf.jobs.patience = 0.0
    first = ids(browser)["step-900"]
    waiting = browser.get("/explore", params={"run": first})
    assert waiting.status_code in (200, 202)
    while waiting.status_code == 202:
        assert "Reading the run" in waiting.text
        waiting = browser.get("/explore", params={"run": first})
    assert len(list((tmp_path / "samples").glob("*.sqlite"))) == 1


def test_a_damaged_part_is_told_in_a_line(runs, tmp_path):
    shutil.copytree(runs / "step-900", tmp_path / "runs" / "run")
    part = next((tmp_path / "runs" / "run" / "samples").glob("*.parquet"))
    content = bytearray(part.read_bytes())
    content[len(content) // 3] ^= 255
    content[-200] ^= 255
    part.write_bytes(content)
    browser = client(tmp_path / "runs", cache=tmp_path / "cache")
    response = browser.get("/explore", params={"run": ids(browser)["run"]})
    if response.status_code == 200:  # it was the pixels: they are compared with their hash when they are asked for
        assert {browser.get(each).status_code for each in pictures(response.text)} >= {409}
    else:
        assert response.status_code == 409
        assert part.name in response.text


@pytest.mark.parametrize("harm", ["a byte", "half", "text", "a folder"])
def test_a_damaged_index_is_made_anew(runs, tmp_path, harm):
    """SQLite takes a changed byte for another number: the index has a checksum, as the run's files have."""
    first = client(runs, cache=tmp_path)
    address = f"/explore?run={ids(first)['step-900']}&order=unsure"
    whole = first.get(address).text
    place = next((tmp_path / "samples").glob("*.sqlite"))
    content = bytearray(place.read_bytes())
    content[content.index(b"target") + 1] ^= 1
    if harm == "a folder":
        place.unlink()
        place.mkdir()
        (place / "file").touch()
    else:
        place.write_bytes({"a byte": content, "half": content[: len(content) // 2], "text": b"text"}[harm])
    for browser in (first, client(runs, cache=tmp_path)):
        response = browser.get(address)
        if harm == "a folder":
            assert response.status_code == 409
            assert "no index of a run can be written there" in response.text
        else:
            assert response.text == whole


def test_other_files_beside_the_parts_are_passed_over(runs, tmp_path):
    shutil.copytree(runs / "step-900", tmp_path / "runs" / "run")
    (tmp_path / "runs" / "run" / "samples" / "notes.parquet").write_bytes(b"no part")
    browser = client(tmp_path / "runs", cache=tmp_path / "cache")
    assert browser.get("/explore", params={"run": ids(browser)["run"]}).status_code == 200


@pytest.mark.parametrize(
    ("file", "column", "cells"),
    [
        ("samples/part-00000.parquet", "role", pa.array([3] * 100)),
        ("samples/part-00000.parquet", "prompt", pa.array([None] * 100, pa.string())),
        ("embeddings/eye/part-00000.parquet", "vector", pa.array([[1.0] * (row % 3) for row in range(100)])),
        ("embeddings/eye/part-00000.parquet", "vector", pa.array(["text"] * 100)),
    ],
)
def test_a_table_of_another_shape_is_told_in_a_line(runs, tmp_path, file, column, cells):
    """Of a run without checksums nothing but the shape of its tables can be asked."""
    place = tmp_path / "runs" / "run"
    shutil.copytree(runs / "step-900", place)
    as_of_format_1(place)
    table = pq.read_table(place / file)
    held = table.set_column(table.column_names.index(column), column, cells.slice(0, len(table)))
    pq.write_table(held, place / file)
    browser = client(tmp_path / "runs", cache=tmp_path / "cache")
    response = browser.get("/explore", params={"run": ids(browser)["run"]})
    assert response.status_code == 409
    assert file in response.text


@pytest.mark.parametrize("column", ["image", "prompt"])
def test_a_part_that_unfolds_to_fill_the_memory_is_told_and_not_shown(runs, tmp_path, column):
    place = tmp_path / "runs" / "run"
    shutil.copytree(runs / "step-900", place)
    browser = client(tmp_path / "runs", cache=tmp_path / "cache")
    query = {"run": ids(browser)["run"]}
    picture = re.findall(r'src="(/pictures/[^"]+/small)"', browser.get("/explore", params=query).text)[0]
    as_of_format_1(place)
    path = place / "samples/part-00000.parquet"
    schema, zeros = pq.read_schema(path), pa.array([0] * 3000, pa.int32())
    text, content = (pa.DictionaryArray.from_arrays(zeros, pa.array([b"x" * 1_000_000], kind))
                     for kind in (pa.string(), pa.binary()))  # fmt: skip
    bomb = text if column == "prompt" else pa.StructArray.from_arrays([content, text], ["bytes", "path"])
    columns = {field.name: pa.nulls(3000, field.type) for field in schema} | {column: bomb}
    pq.write_table(pa.table(columns), path, compression="zstd", store_schema=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answers = [browser.get("/explore", params=query).status_code, browser.get(picture).status_code]
    assert set(answers) <= {404, 409, 200}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kilobytes
    assert browser.get("/", follow_redirects=False).status_code < 500


class Coin:
    """Answers by the first byte of a picture, as if by chance; it gives probabilities where ``sure`` is given."""

    batch_size = 8

    def __init__(self, name, bit, sure=None):
        self.card = Card(kind="reader", name=name, family="toy/coin")
        self.bit, self.sure = bit, sure

    def possible_answers(self, question):
        return tuple(question.options)

    def read(self, images, question):
        return [self._reading(np.asarray(image).sum(dtype=int), question) for image in images]

    def _reading(self, number, question):
        answer = question.groups[(number >> self.bit) & 1]
        rest = None if self.sure is None else (1 - self.sure) / (len(question.options) - 1)
        given = None if rest is None else tuple(self.sure if o == answer else rest for o in question.options)
        return Reading(answer, probabilities=given, words=f"<b>I see {answer}</b>")


def test_readers_stand_beside_pictures_and_can_be_filtered_by(tmp_path):
    run = quick.audit(Painter(), toy_suite(), encoder=Eye(), out=tmp_path / "runs" / "read", report=False)
    cm.read_run(run.url, reader=Coin("low", 0, sure=0.75))
    cm.read_run(run.url, reader=Coin("high", 3))
    table = {name: run.readings(name).set_index("id") for name in ("low", "high")}
    question = table["low"].question.iloc[0]
    with client(tmp_path / "runs", cache=tmp_path / "cache") as browser:
        own = ids(browser)["read"]

        def page(**asked):
            return browser.get("/explore", params={"run": own, "per": 96} | asked).text

        everything = page()
        assert everything.count("reader-says") == 2 * len(table["low"])
        assert '<span class="by">0.75</span>' in everything
        answer = table["low"].answer.iloc[0]
        said = shown(page(reader=f"{question}/low", said=answer))
        assert said == table["low"].index[table["low"].answer == answer].tolist()
        either = {i for t in table.values() for i in t.index[t.answer == answer]}
        assert set(shown(page(said=answer))) == either
        apart = table["low"].index[table["low"].answer != table["high"].answer]
        assert shown(page(readers="disagree")) == apart.tolist()
        assert 0 < len(apart) < len(table["low"])
        assert set(shown(page(readers="disagree", order="unsure"))) == set(apart)
        assert not shown(page(reader="nobody"))
        large = browser.get(f"/runs/{own}/pictures/{said[0]}").text
        assert f"&lt;b&gt;I see {answer}&lt;/b&gt;" in large
        assert "0.75" in large
