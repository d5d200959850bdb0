"""How often a store is asked: listings in place of looks, a part fetched once, and never what another process wrote."""

import time
from collections import Counter

import pytest

import clinometer as cm
from clinometer.errors import Code, RunCorruptError
from clinometer.runs.backends import INVENTORIES
from clinometer.runs.leases import hold
from clinometer.runs.run import Run
from clinometer.runs.storage import Directory
from tests import quick
from tests.raising import raises
from tests.runs.s3_server import bucket
from tests.toys import Eye, Painter, toy_suite

pytest.importorskip("s3fs")

FEWER, MORE = (toy_suite(target=each, attribute=2, concepts=2) for each in (4, 28))


@pytest.fixture(scope="module")
def store():
    with bucket() as proxy:
        yield proxy


def asked(store, work):
    """What some work asks of the store: requests by kind, without those of leases, which are renewed by the clock."""
    store.requests.clear()
    work()
    return Counter(
        "LIST" if "list-type" in path else method for method, path, _ in store.requests if ".leases" not in path
    )


def audit(suite, out, **options):
    return quick.audit(Painter(), suite, f"s3://bucket/{out}", encoder=Eye(), **options)


@pytest.fixture(scope="module")
def counts(store):
    """Requests of an audit, of its repetition and of more, for a run of few parts and one of more."""
    found = {}
    for name, suite in {"fewer": FEWER, "more": MORE}.items():
        url = f"s3://bucket/{name}"
        works = {
            "audit": lambda suite=suite, name=name: audit(suite, name),
            "again": lambda suite=suite, name=name: audit(suite, name),
            "score": lambda url=url: cm.score_run(url),
            "samples": lambda url=url: cm.open_run(url).samples,
            "repr": lambda url=url: repr(cm.open_run(url)),
            "scores": lambda url=url: cm.open_run(url).scores,
        }
        found[name] = {what: asked(store, work) for what, work in works.items()}
        found[name]["parts"] = len(cm.open_run(url).parts)
    return found


@pytest.fixture
def run(store, counts, request):
    """A copy of the smaller run."""
    fs, place = Directory("s3://bucket").fs, f"bucket/copies/{request.node.name}"
    for name in fs.find("bucket/fewer"):
        if "/." not in name:
            fs.copy(name, name.replace("bucket/fewer", place))
    return Run(f"s3://{place}")


def a_part(counts, what):
    """Requests a part, and those that do not grow with the parts."""
    parts, further = (counts[name]["parts"] for name in ("fewer", "more"))
    few, many = (counts[name][what].total() for name in ("fewer", "more"))
    each = (many - few) / (further - parts)
    return each, few - each * parts


@pytest.mark.thorough
def test_an_audit_asks_five_times_a_part(counts):
    """Samples and vectors are written and read, and the report shows the images of each part."""
    each, fixed = a_part(counts, "audit")
    assert each <= 5
    assert fixed <= 85
    written, listed = (counts["more"]["audit"][kind] for kind in ("PUT", "LIST"))
    assert written <= 2 * counts["more"]["parts"] + 25
    assert listed <= 25
    assert counts["more"]["audit"]["HEAD"] == 0


def test_a_repetition_asks_nothing_of_the_parts(counts):
    for what in ("again", "score", "scores", "repr"):
        each, fixed = a_part(counts, what)
        assert each == 0, what
        assert fixed <= 25, what


def test_a_table_of_samples_asks_once_a_part(counts):
    each, fixed = a_part(counts, "samples")
    assert each == 1
    assert fixed <= 8


def test_a_large_part_is_fetched_without_its_pixels_and_once(run, store, monkeypatch):
    here, parts = run.samples, len(run.parts)
    monkeypatch.setattr("clinometer.runs.backends._SMALL", 0)
    monkeypatch.setattr("clinometer.runs.storage._TAIL", 2**13)
    found = asked(store, lambda: Run(run.url).samples)
    assert parts + 3 < found["GET"] <= 2 * parts + 3  # run.json twice, the plan, and two ranges of all but small parts
    assert found.keys() == {"GET", "LIST"}
    with hold(run.directory):
        held = Run(run.url)
        assert held.samples.equals(here)
        assert asked(store, lambda: held.samples)["GET"] == 0
        images = dict(held.images(here.id))  # with pixels nothing is taken from what is kept without them
    assert all(content and content.startswith(b"\x89PNG") for content in images.values())


def rewritten(url, part, **changes):
    """Have somebody else write a part again, and list it."""
    other = Run(url)
    other.drawn.redraw({part: {sample.id for sample in other.parts[part]}})
    rows = other.drawn.part(part, None).to_pylist()
    other.drawn.write(part, [row | changes for row in rows])
    other.end_stage()


def test_a_part_that_another_writes_after_the_listing_is_read_as_it_is(run, monkeypatch):
    """By the size that the listing holds, its end is looked for in the wrong place."""
    monkeypatch.setattr("clinometer.runs.backends._SMALL", 0)
    monkeypatch.setattr("clinometer.runs.storage._TAIL", 2**13)
    with run.directory.listed_once():
        assert run.drawn.has(0)
        rewritten(run.url, 0, reason="written again, at a greater length than before" * 9)
        assert run.samples.reason.notna().sum() == len(run.parts[0])
        rewritten(run.url, 0, reason="and again")
    assert set(run.samples.reason.dropna()) == {"and again"}


def test_a_file_that_is_gone_since_the_listing_is_missed(run):
    with run.directory.listed_once():
        assert run.drawn.has(0)
        Directory(run.url).remove("samples/part-00000.parquet")
        with raises(RunCorruptError, code=Code.CORRUPT, match="it was written and is missing"):
            run.drawn.read(0)


def test_what_others_may_write_at_any_time_is_asked_each_time(store):
    directory, other = Directory("s3://bucket/shared-by-two"), Directory("s3://bucket/shared-by-two")
    with directory.locked():
        held = INVENTORIES.pop(directory.place)  # the other one as another process, which holds nothing
        for name in ("ratings/part-00000.parquet", ".leases/record-000001.json"):
            INVENTORIES[directory.place] = held
            assert not directory.exists(name)
            del INVENTORIES[directory.place]
            other.write_bytes(name, b"x")
            INVENTORIES[directory.place] = held
            assert directory.exists(name)
            assert name in directory.names(name.split("/")[0], "")
            directory.remove(name)
            assert not directory.exists(name)


def test_what_this_process_writes_and_removes_is_known(store):
    directory = Directory("s3://bucket/own")
    with directory.locked():
        assert directory.contents() == []
        directory.write_bytes("embeddings/eye/part-00000.parquet", b"xy")
        assert directory.exists("embeddings/eye/part-00000.parquet")
        assert directory.contents() == ["embeddings"]
        assert directory.names("embeddings", "") == ["embeddings/eye"]
        assert directory.size("embeddings/eye/part-00000.parquet") == 2
        assert not directory.create_bytes("embeddings/eye/part-00000.parquet", b"z")
        directory.remove("embeddings/eye/part-00000.parquet")
        assert not directory.exists("embeddings/eye/part-00000.parquet")
        assert directory.names("embeddings/eye", "") == []


@pytest.mark.thorough
def test_a_run_that_was_touched_on_a_store_is_looked_into(run, store):
    """Whether copied, or the same bytes written again: the checksums are read, and nothing is to be done."""
    parts, painter = len(run.parts), Painter()

    def again():
        quick.audit(painter, FEWER, run.url, encoder=Eye())

    assert asked(store, again)["GET"] >= 2 * parts
    least = asked(store, again)["GET"]
    time.sleep(1.1)  # the store tells times in seconds, and the bytes are the same
    run.directory.write_bytes("samples/part-00000.parquet", run.directory.read_bytes("samples/part-00000.parquet"))
    assert asked(store, again)["GET"] >= least + 2 * parts
    assert asked(store, again)["GET"] == least
    assert painter.drawn == 0


@pytest.mark.thorough
@pytest.mark.slow
def test_workers_ask_twenty_two_times_a_part(store):
    """A worker looks first whether another made the part; to score, each reads the vectors that its concepts have.

    Each also asks the samples once which of them are another one again, and whoever scores reads all vectors to find
    pictures that are nearly one.
    """
    totals = {}
    for name, suite in {"fewer by workers": FEWER, "more by workers": MORE}.items():
        found = asked(store, lambda name=name, suite=suite: audit(suite, name, workers=2))
        totals[len(cm.open_run(f"s3://bucket/{name}").parts)] = found.total()
    (parts, few), (further, many) = sorted(totals.items())
    each = (many - few) / (further - parts)
    assert each <= 22
    run = Run("s3://bucket/more by workers")
    tables = {name: checksum for name, checksum in run.ledger.files.items() if name.endswith(".parquet")}
    assert len(tables) == 2 * len(run.parts) + 5  # plan, texts, what saving again does, scores and curves
    assert tables == {name: run.directory.seal(name) for name in tables}
