"""What is read back is what was written: run.json lists every file's checksum, and a part bears its own."""

import hashlib
import json
import multiprocessing
import os
import resource
import shutil
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import clinometer as cm
from clinometer.api import verify_run
from clinometer.errors import (
    Code,
    DamagedRunWarning,
    RunCorruptError,
    RunMismatchError,
    RunNotFoundError,
    RunStorageError,
    SuiteError,
    UncheckedRunWarning,
)
from clinometer.pipeline.results import write_report
from clinometer.runs.plan import PLAN_LOST
from clinometer.runs.record import checksum_of, new_record, with_checksum
from clinometer.runs.run import Run, create_run
from clinometer.runs.samples import SAMPLE_SCHEMA
from clinometer.runs.storage import REDO, Directory, read_sealed, seal_of, sealed
from tests import quick
from tests.old_runs import as_of_format_1
from tests.raising import raises
from tests.runs.counting import count_up
from tests.toys import Eye, Painter, toy_suite

pytestmark = pytest.mark.usefixtures("shortcuts_of_a_module")

SUITE = toy_suite(margin=0.1, target=10)


def audit(out, **options):
    options = {"model": Painter(), "suite": SUITE, "encoder": Eye(), "out": out} | options
    return quick.audit(**options)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return audit(tmp_path_factory.mktemp("finished") / "run")


@pytest.fixture(scope="module")
def finished_with_a_page(tmp_path_factory):
    return audit(tmp_path_factory.mktemp("finished") / "run", report=True)


@pytest.fixture
def run(tmp_path, request, finished):
    whole = request.getfixturevalue("finished_with_a_page") if quick.draws_pages() else finished
    shutil.copytree(whole.url, tmp_path / "run")
    return tmp_path / "run"


def contents(folder):
    """Every file by name; of tables the columns that do not tell the time."""
    found = {}
    for path in sorted(folder.rglob("*.parquet")):
        table = pq.read_table(path)
        kept = [name for name in table.column_names if name != "seconds"]
        found[path.relative_to(folder).as_posix()] = table.select(kept).to_pylist()
    return found


# --- seals -----------------------------------------------------------------------------------------------------------


def pixels_of(path):
    """Where the pixels lie in a file."""
    group = pq.read_metadata(path).row_group(0)
    columns = [group.column(order) for order in range(group.num_columns)]
    column = next(each for each in columns if each.path_in_schema == "image.bytes")
    start = column.dictionary_page_offset or column.data_page_offset
    return range(start, start + column.total_compressed_size)


def a_part(images=4, size=3000):
    image = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    rows = [{"bytes": os.urandom(size), "path": f"{order}.png"} for order in range(images)]
    return pa.table({"id": [str(order) for order in range(images)], "image": pa.array(rows, image)})


def test_a_seal_is_of_every_byte_and_of_the_pixels_where_they_are_read(tmp_path):
    content, checksum = sealed(a_part(), "part")
    path = tmp_path / "part"
    path.write_bytes(content)
    with path.open("rb") as file:
        assert seal_of(file) == checksum
    pixels = pixels_of(path)
    assert len(pixels) > 12_000
    for place in [*range(0, len(content), 97), *range(len(content) - 1200, len(content), 7)]:
        changed = bytearray(content)
        changed[place] ^= 16
        path.write_bytes(changed)
        for whole in (False, True):
            with path.open("rb") as file:
                found = read_sealed(file, "part", pixels=whole)
            assert (found is None or found.seal != found.checksum) == (whole or place not in pixels), place


def test_a_seal_is_of_the_name_too():
    content, checksum = sealed(a_part(), "embeddings/one/part-00000.parquet")
    found = read_sealed(pa.PythonFile(pa.BufferReader(content)), "embeddings/two/part-00000.parquet", pixels=True)
    assert (found.seal, found.checksum != checksum) == (checksum, True)


def test_a_table_without_pixels_is_the_same_table(tmp_path):
    directory = Directory(tmp_path)
    table = a_part(images=40)
    directory.write_table("part.parquet", table)
    assert directory.read_table("part.parquet").equals(table)
    assert directory.read_table("part.parquet", ["id"]).equals(table.select(["id"]))
    assert directory.read_table("part.parquet").schema.metadata is None


@pytest.mark.parametrize("columns", [["id"], ["id", "image"]])
def test_no_byte_is_read_twice_and_pixels_only_when_asked_for(tmp_path, columns):
    content, _ = sealed(a_part(images=40), "part")
    place = tmp_path / "part"
    place.write_bytes(content)
    with place.open("rb") as file:
        read = []
        took = file.read

        class Counted:
            seek = file.seek

            @staticmethod
            def read(size=-1):
                piece = took(size)
                read.append(len(piece))
                return piece

        read_sealed(Counted, "part", pixels="image" in columns)
    whole = "image" in columns
    assert sum(read) == len(content) if whole else sum(read) <= (1 << 16) + 1000


# --- run.json --------------------------------------------------------------------------------------------------------


@pytest.mark.pages
def test_run_json_lists_every_file_and_says_its_own_checksum(finished_with_a_page):
    finished = finished_with_a_page
    record = json.loads(finished.directory.read_bytes("run.json"))
    there = {
        path.relative_to(finished.directory.root).as_posix()
        for path in Path(finished.directory.root).rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }
    assert set(record["files"]) == there - {"run.json"}
    for name in ("scores.csv", "report.html"):
        assert record["files"][name] == hashlib.sha256(finished.directory.read_bytes(name)).hexdigest()
    said = {key: value for key, value in record.items() if key != "checksum"}
    canonical = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
    assert record["checksum"] == hashlib.sha256(canonical).hexdigest() == checksum_of(record)
    assert verify_run(finished.url) == len(there)


def test_a_checksum_does_not_hang_on_what_json_makes_of_a_value():
    record = with_checksum({"a": (1, 2.0), 3: "x", "ä": None})
    assert checksum_of(json.loads(json.dumps(record))) == record["checksum"]


def test_an_edited_margin_changes_no_verdict(run):
    text = (run / "run.json").read_text()
    assert '"margin": 0.1' in text
    (run / "run.json").write_text(text.replace('"margin": 0.1', '"margin": 0.9'))
    for use in (cm.score_run, verify_run, lambda place: write_report(cm.open_run(place)), audit):
        with raises(
            RunCorruptError, code=Code.CORRUPT, match=r"run\.json: it was changed.*--suite-option margin="
        ) as said:
            use(run)
        assert len(str(said.value).splitlines()) == 1


@pytest.mark.parametrize("key", ["files", "checksum"])
def test_a_run_does_not_become_an_old_one_by_an_edit(run, key):
    record = json.loads((run / "run.json").read_text())
    for changed in (record | {"format": 1}, {name: value for name, value in record.items() if name != key}):
        (run / "run.json").write_text(json.dumps(changed))
        with raises(RunCorruptError, code=Code.CORRUPT, match=r"run\.json: it was changed"):
            _ = cm.open_run(run).suite


@pytest.mark.parametrize(
    "change",
    [
        {"until": "decided"}, {"until": {"precise": 1}}, {"until": 3}, {"own_encoders": []}, {"own_encoders": {"x": 1}},
        {"begun_encoders": "eye"}, {"batch_size": "many"}, {"files": ["plan.parquet"]}, {"suite_options": [1]},
    ],
)  # fmt: skip
def test_values_of_another_kind_are_named(run, change):
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(with_checksum(record | change)))
    with raises(RunCorruptError, code=Code.CORRUPT, match=rf"run\.json: {next(iter(change))}"):
        audit(run)


def test_two_processes_that_change_run_json_lose_nothing(tmp_path):
    create_run(tmp_path, new_record(SUITE, Painter().card, seed=0, origin="generated"), [])
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=count_up, args=(tmp_path, 20)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(600)
    assert Run(tmp_path).record["batch_size"] == 40


def test_what_another_process_has_written_since_is_no_damage(run):
    held = cm.open_run(run)
    before = held.scores
    cm.score_run(run, encoder=Eye("second"))
    assert len(held.scores) > len(before)


def swap_images(run):
    """Put the images of one part in the place of another's: a whole file, and not the one that is listed."""
    table = cm.open_run(run).ledger.read_table("samples/part-00000.parquet")
    Directory(run).write_table("samples/part-00001.parquet", table.slice(0, 1))


def read_refused(ledger):
    with raises(RunCorruptError, code=Code.CORRUPT, match="another file"):
        ledger.read_table("samples/part-00001.parquet", ["id"])


@pytest.mark.parametrize("beside", [False, True], ids=["in the same thread", "in a thread beside it"])
def test_a_damaged_file_that_is_read_meanwhile_loses_no_change_of_run_json(run, beside):
    swap_images(run)
    ledger = cm.open_run(run).ledger
    with ThreadPoolExecutor(1) as reader, ledger.together():
        ledger.update(lambda record: {"batch_size": 7})
        if beside:
            reader.submit(read_refused, ledger).result()
        else:
            read_refused(ledger)
        assert ledger.record["batch_size"] == 7
        ledger.update(lambda record: {"suite_options": []})
    assert cm.open_run(run).record["batch_size"] == ledger.record["batch_size"] == 7


def test_threads_that_read_and_one_that_changes_run_json_see_whole_records(run):
    """Each reader finds a damaged file and looks at run.json again, while changes of it go on."""
    swap_images(run)
    ledger = cm.open_run(run).ledger
    over = threading.Event()

    def read():
        while not over.is_set():
            read_refused(ledger)
            assert ledger.record["format"] == 2

    with ThreadPoolExecutor(3) as readers:
        reading = [readers.submit(read) for _ in range(3)]
        try:
            for number in range(1, 30):
                with ledger.together():
                    ledger.update(lambda record, number=number: {"batch_size": number})
                    time.sleep(0.001)
                assert ledger.record["batch_size"] == number
        finally:
            over.set()
        for each in reading:
            each.result()
    assert cm.open_run(run).record["batch_size"] == 29


def test_of_two_reports_at_once_the_one_that_stays_is_listed(run, monkeypatch):
    first, second = cm.open_run(run), cm.open_run(run)
    other, write = threading.Thread(target=write_report, args=(second,)), Directory.write_bytes

    def write_and_let_the_other(directory, name, content):
        write(directory, name, content + b" " * (directory is first.directory))  # else both write the same
        if directory is first.directory and name == "report.html":
            other.start()
            other.join(1)

    monkeypatch.setattr(Directory, "write_bytes", write_and_let_the_other)
    write_report(first)
    other.join()
    verify_run(run)


# --- killed, damaged, repaired ---------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.slow
def test_a_run_killed_at_any_rename_goes_on_to_the_same(tmp_path, monkeypatch):
    """Before a file's new name and after it, run.json among them: what is read back is never refused."""
    few = toy_suite(target=3, attribute=2, concepts=2, margin=0.1)
    rename, moments = os.replace, []

    def photographed(temporary, path):
        """What a process killed here would leave: nothing of it cleans up."""
        for when in ("before", "after"):
            place = tmp_path / f"{len(moments)}"
            shutil.copytree(tmp_path / "whole", place)
            moments.append((place, f"{when} {path}"))
            if when == "before":
                rename(temporary, path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", photographed)
        whole = audit(tmp_path / "whole", suite=few, resamples=19)
    expected = contents(tmp_path / "whole")
    assert sum(said.endswith("run.json") for _, said in moments) >= 2 * 5
    for place, said in moments:
        again = audit(place, suite=few, resamples=19)
        assert contents(place) == expected, said
        assert set(again.record["files"]) == set(whole.record["files"]), said
        verify_run(place)


PARTS = ["samples/part-00001.parquet", "embeddings/eye/part-00002.parquet", "embeddings/eye/texts.parquet"]


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("damage", [b"", None, b"half"])
def test_a_damaged_part_is_named_removed_and_made_anew(run, name, damage):
    """The way out as the message says it, and the run is the undamaged one again."""
    before = contents(run)
    path = run / name
    whole = path.read_bytes()
    path.write_bytes({b"": b"", None: bytes(len(whole)), b"half": whole[: len(whole) // 2]}[damage])
    for use in (cm.score_run, verify_run, audit):
        with raises(
            RunCorruptError,
            code=Code.CORRUPT,
            match=rf"{name}: it (carries no checksum|is not what).*Delete the file and give",
        ):
            use(run)
    path.unlink()
    with raises(RunNotFoundError, code=Code.INCOMPLETE):
        cm.score_run(run)
    painter = Painter()
    audit(run, model=painter)
    assert painter.drawn == (8 if name.startswith("samples") else 0)
    assert contents(run) == before
    verify_run(run)


def test_a_record_that_may_not_be_written_says_so_and_the_way_out(run):
    (run / ".record.lock").unlink()
    (run / ".record.lock").mkdir()
    with raises(RunStorageError, code=Code.STORAGE, match="give another --out"):
        write_report(cm.open_run(run))


def test_curves_that_are_gone_are_not_called_scores_that_never_were(run):
    (run / "curves.parquet").unlink()
    with raises(RunNotFoundError, code=Code.INCOMPLETE, match=r"curves\.parquet is missing; give: clinometer score "):
        _ = cm.open_run(run).curves


def test_damaged_scores_are_made_anew_by_scoring(run):
    before = (run / "scores.parquet").read_bytes()
    (run / "scores.parquet").write_bytes(b"")
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"scores\.parquet: .*no checksum.*clinometer score RUN"):
        _ = cm.open_run(run).scores
    cm.score_run(run)
    assert (run / "scores.parquet").read_bytes() == before
    verify_run(run)


def test_images_that_changed_places_are_named(run):
    path = run / PARTS[0]
    table = pq.read_table(path)
    backwards = table["image"].take(list(range(table.num_rows))[::-1])
    table = table.set_column(table.column_names.index("image"), "image", backwards)
    as_of_format_1(run)  # of which no checksum is kept but the images' own
    pq.write_table(table.replace_schema_metadata(None), path)
    with (
        pytest.warns(UncheckedRunWarning),
        raises(RunCorruptError, code=Code.CORRUPT, match=r"part-00001.*image \w+ is not the one"),
    ):
        cm.score_run(run, encoder=Eye("second"))


@pytest.mark.pages
def test_a_flip_in_the_pixels_is_named_where_they_are_used(run):
    path = run / PARTS[0]
    content = bytearray(path.read_bytes())
    pixels = pixels_of(path)
    content[pixels[len(pixels) // 2]] ^= 1
    path.write_bytes(content)
    (run / "report.html").unlink()
    with pytest.warns(DamagedRunWarning, match=r"part-00001.parquet: it is not what was written"):
        audit(run)  # finds nothing to draw and reads no pixels, but the report does
    assert "part-00001.parquet" in (run / "report.html").read_text()
    for use in (verify_run, lambda place: cm.score_run(place, encoder=Eye("second"))):
        with raises(RunCorruptError, code=Code.CORRUPT, match=r"part-00001.parquet"):
            use(run)


# --- reports ---------------------------------------------------------------------------------------------------------


@pytest.mark.pages
@pytest.mark.parametrize("gone", [True, False])
def test_a_report_with_a_part_missing_or_damaged_says_so_at_its_top(run, gone):
    path = run / PARTS[0]
    path.unlink() if gone else path.write_bytes(path.read_bytes()[:-1])
    said = write_report(cm.open_run(run))
    assert len(said) == 1
    assert PARTS[0] in said[0]
    page = (run / "report.html").read_text()
    assert page.index('class="damage"') < page.index('class="masthead"')
    assert PARTS[0] in page[page.index('class="damage"') : page.index('class="masthead"')]
    assert str(run) not in page  # it may be published


@pytest.mark.pages
def test_a_whole_run_says_nothing_of_damage(run):
    assert write_report(cm.open_run(run)) == []
    page = (run / "report.html").read_text()
    assert 'class="masthead"' in page
    assert 'class="damage"' not in page


# --- runs without checksums ------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.pages
def test_an_old_run_says_so_in_a_line_and_goes_on_working(run, tmp_path):
    before = contents(run)
    as_of_format_1(run)
    with pytest.warns(UncheckedRunWarning, match=r"run.json is of format 1, without checksums: .* cannot be verified$"):
        assert len(cm.open_run(run).samples) == 70
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncheckedRunWarning)
        cm.score_run(run)
        write_report(cm.open_run(run))
        other = audit(tmp_path / "other", model=Painter(name="other"))
        assert len(cm.compare(run, other)) == 1
        (run / PARTS[0]).unlink()
        audit(run)
    assert contents(run) == before
    record = json.loads((run / "run.json").read_text())
    assert record["format"] == 1
    assert not {"files", "checksum"} & set(record)
    assert "none: begun by an earlier version" in (run / "report.html").read_text()


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (0, r"plan\.parquet: it plans no image\. Restore it"),
        (8, r"plan\.parquet: it does not plan the images of samples/part-00001\.parquet"),
    ],
    ids=["emptied", "cut between parts"],
)
def test_an_old_run_whose_plan_has_lost_images_is_not_scored_without_them(run, kept, words):
    as_of_format_1(run)
    table = pq.read_table(run / "plan.parquet")
    assert kept == 0 or table["part"][kept].as_py() == table["part"][kept - 1].as_py() + 1
    pq.write_table(table.slice(0, kept), run / "plan.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncheckedRunWarning)
        for use in (cm.score_run, verify_run, lambda place: write_report(cm.open_run(place)), audit):
            with raises(RunCorruptError, code=Code.CORRUPT, match=words):
                use(run)


def test_vectors_of_another_length_are_named_in_an_old_run(run):
    as_of_format_1(run)
    part = run / "embeddings/eye" / PARTS[0].split("/")[-1]
    table = pq.read_table(part)
    short = pa.FixedSizeListArray.from_arrays(pa.array([1.0] * 2 * len(table), pa.float32()), 2)
    pq.write_table(table.set_column(table.schema.get_field_index("vector"), "vector", short), part)
    with (
        pytest.warns(UncheckedRunWarning),
        raises(RunCorruptError, code=Code.CORRUPT, match=r"part-0000\d\.parquet: its vectors have \d+ numbers"),
    ):
        cm.score_run(run)


def test_an_old_run_keeps_the_suite_it_was_asked(run):
    as_of_format_1(run)
    text = (run / "run.json").read_text()
    (run / "run.json").write_text(text.replace('"margin": 0.1', '"margin": 0.9'))
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"run\.json: its suite was changed"):
        cm.score_run(run)


# --- another margin, on purpose --------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.pages
def test_another_margin_is_recorded_with_the_old_one_and_shown(run):
    before = cm.open_run(run).scores
    cm.score_run(run, suite_options=["margin=0.9"])
    held = cm.open_run(run)
    (change,) = held.record["suite_options"]
    assert (change["option"], change["old"], change["new"]) == ("margin", 0.1, 0.9)
    assert (held.suite.margin, held.record["suite"]["margin"]) == (0.9, 0.1)
    assert list(held.scores.verdict) != list(before.verdict)
    page = (run / "report.html").read_text()
    assert "margin, changed after drawing" in page
    assert f"0.1 → 0.9 on {change['since'][:10]}" in page
    audit(run)  # is the same question still
    cm.score_run(run, suite_options=["margin=0.9"])  # is no change
    assert len(cm.open_run(run).record["suite_options"]) == 1
    cm.score_run(run, suite_options=["margin=.1"])
    assert cm.open_run(run).scores.equals(before)
    assert "0.1 → 0.9" in (run / "report.html").read_text()
    verify_run(run)


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ("margin=-1", Code.OUT_OF_RANGE, "--suite-option margin: .*found -1"),
        ("margin=wide", Code.WRONG_TYPE, "--suite-option margin: .*found 'wide'"),
        ("margin=[", Code.MALFORMED, r"--suite-option margin=\["),
        ("margin", Code.UNSUPPORTED, "--suite-option margin: .*margin=…"),
        ("images=3", Code.UNSUPPORTED, "--suite-option images=3"),
    ],
)
def test_a_setting_that_is_none_is_named(run, given, code, words):
    before = (run / "run.json").read_bytes()
    with raises(SuiteError, code=code, match=words):
        cm.score_run(run, suite_options=[given])
    assert (run / "run.json").read_bytes() == before


def test_a_run_that_its_margin_stopped_keeps_it(tmp_path):
    audit(tmp_path / "run", until=0.2, images=12)
    with raises(SuiteError, code=Code.UNSUPPORTED, match="drawn until decided"):
        cm.score_run(tmp_path / "run", suite_options=["margin=0.3"])


# --- what no seal tells ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("plan.parquet", "Restore it, or start a new run"),
        ("samples/part-00000.parquet", "only what is missing is done again"),
        ("embeddings/eye/texts.parquet", "only what is missing is done again"),
    ],
)
def test_a_file_that_is_gone_is_named_with_the_way_out(run, name, way_out):
    (run / name).unlink()
    with raises(RunCorruptError, code=Code.CORRUPT, match=f"{name}: .*missing.*{way_out}"):
        Run(run).ledger.read_table(name, way_out=PLAN_LOST if name == "plan.parquet" else REDO)


def test_the_record_of_another_run_is_named(run, tmp_path):
    other = audit(tmp_path / "other", model=Painter(name="other"))
    shutil.copy(Path(other.url) / "run.json", run / "run.json")
    with raises(RunMismatchError, code=Code.MISMATCH, match="model 'other'"):
        audit(run)


@pytest.mark.parametrize("name", ["samples/part-00000.parquet", "embeddings/eye/part-00001.parquet"])
def test_a_file_that_goes_while_a_run_is_scored_is_missed(run, name, monkeypatch):
    """It was read by then, and nobody has taken it off the list."""
    (run / "scores.parquet").unlink()
    write = Run.write_scores
    monkeypatch.setattr(Run, "write_scores", lambda *given: ((run / name).unlink(), write(*given)))
    cm.score_run(run)
    with raises(RunCorruptError, code=Code.CORRUPT, match=f"missing: {name}"):
        verify_run(run)
    audit(run)
    verify_run(run)


@pytest.mark.pages
def test_a_report_that_is_gone_is_not_missed_by_the_next(run):
    (run / "report.html").unlink()
    assert write_report(cm.open_run(run)) == []


def test_an_image_that_is_gone_from_its_part_is_not_the_encoders_fault(run):
    opened = cm.open_run(run)
    name = "samples/part-00000.parquet"
    rows = opened.ledger.read_table(name).to_pylist()
    rows[0] |= {"image": None, "sha256": None}
    opened.ledger.write_table(name, pa.Table.from_pylist(rows, schema=SAMPLE_SCHEMA))
    opened.ledger.list_files()
    with raises(RunCorruptError, code=Code.CORRUPT, match=rf"part-00000\.parquet: image {rows[0]['id']} is missing"):
        cm.score_run(run, encoder=Eye("another eye"))


@pytest.mark.pages
@pytest.mark.parametrize("name", ["run.json", "plan.parquet", "report.html"])
def test_a_pipe_is_no_file(run, name):
    (run / name).unlink()
    os.mkfifo(run / name)
    with raises(RunCorruptError, code=Code.CORRUPT, match=f"{name}: cannot be read: "):
        verify_run(run)


@pytest.mark.thorough
@pytest.mark.pages
def test_a_file_without_end_is_not_read_whole(run):
    for name in ("report.html", "run.json"):
        with (run / name).open("r+b") as stream:
            stream.truncate(1_000_000_000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with raises(RunCorruptError, code=Code.CORRUPT, match=name):
            verify_run(run)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kilobytes


@pytest.mark.parametrize("protocol", [3, {"departures": 3}, {"departures": [{"option": "x"}]}])
def test_an_odd_protocol_is_named(run, protocol):
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(with_checksum(record | {"protocol": protocol})))
    with raises(RunCorruptError, code=Code.CORRUPT, match="protocol"):
        assert cm.open_run(run).record


# --- what a hostile hand writes --------------------------------------------------------------------------------------


def forge(run, **changes):
    """Change run.json and give it the checksum that fits: no signature is asked for."""
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(with_checksum(record | changes)))
    return record


@pytest.mark.parametrize("name", ["\x1b[31mred\x1b[0m.parquet", "\x1b]0;title\x07", "two\nlines", "../out", "/etc/x"])
@pytest.mark.parametrize("key", ["files", "made_of"])
def test_an_odd_name_of_a_file_is_said_in_a_line_and_reaches_no_terminal(run, key, name):
    entry = "0" * 64 if key == "files" else {"of": "x", "file": "y"}
    forge(run, **{key: {name: entry}})
    for use in (verify_run, cm.score_run, lambda place: write_report(cm.open_run(place)), audit):
        with raises(RunCorruptError, code=Code.CORRUPT, match=f"run.json: {key}") as said:
            use(run)
        assert str(said.value).isprintable()


@pytest.mark.parametrize("made_of", [["scores.parquet"], "scores", {"scores.parquet": "x"}, {"scores.parquet": ["x"]}])
def test_what_a_file_was_made_of_is_a_mapping(run, made_of):
    forge(run, made_of=made_of)
    for use in (verify_run, cm.score_run, lambda place: write_report(cm.open_run(place))):
        with raises(RunCorruptError, code=Code.CORRUPT, match=r"run\.json: made_of") as said:
            use(run)
        assert len(str(said.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["plan.parquet", "scores.parquet", "samples/part-00000.parquet",
                                  "embeddings/eye/texts.parquet"])  # fmt: skip
@pytest.mark.parametrize("sealed_anew", [False, True])
def test_a_table_that_unfolds_to_fill_the_memory_is_refused(run, name, sealed_anew):
    path = run / name
    schema = pq.read_schema(path)
    text = next(field.name for field in schema if "string" in str(field.type))
    rows, texts = 3000, pa.array(["x" * 1_000_000])
    columns = {field.name: pa.nulls(rows, field.type) for field in schema}
    columns[text] = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), texts)
    if sealed_anew:
        content, checksum = sealed(pa.table(columns), name)
        path.write_bytes(content)
        forge(run, files=json.loads((run / "run.json").read_text())["files"] | {name: checksum})
    else:
        as_of_format_1(run)
        pq.write_table(pa.table(columns), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 200_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncheckedRunWarning)
        with raises(RunCorruptError, code=Code.CORRUPT, match=rf"{name}: .*unfolds to [\d,]+ bytes"):
            verify_run(run)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kilobytes


@pytest.mark.parametrize("at_the_end", [True, False], ids=["a hole behind it", "a hole within it"])
def test_a_sparse_file_is_not_read_whole(run, at_the_end):
    path = run / "embeddings/eye/part-00000.parquet"
    content = path.read_bytes()
    with path.open("r+b") as stream:
        stream.truncate(3_000_000_000)
        if not at_the_end:
            stream.seek(3_000_000_000 - 4000)
            stream.write(content[-4000:])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with raises(
        RunCorruptError, code=Code.CORRUPT, match=r"part-00000.parquet: (it carries no checksum|cannot be read)"
    ):
        verify_run(run)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kilobytes


@pytest.mark.parametrize("folder", ["embeddings", "embeddings/eye", "samples"])
def test_nothing_is_written_through_a_folder_that_leads_out_of_the_run(run, tmp_path, folder):
    outside = tmp_path / "outside"
    shutil.move(run / folder, outside)
    (run / folder).symlink_to(outside)
    part = next(outside.rglob("part-00000.parquet"))
    part.unlink()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if outside in path.parents}
    with raises(
        RunStorageError, code=Code.STORAGE, match=rf"part-00000\.parquet: its folder is a link to .*, out of {run}"
    ):
        audit(run)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if outside in path.parents} == before


def test_a_run_may_itself_be_reached_by_a_link(run, tmp_path):
    (tmp_path / "link").symlink_to(run)
    (run / "embeddings/eye/part-00000.parquet").unlink()
    audit(tmp_path / "link")
    verify_run(tmp_path / "link")


# --- whether the numbers follow from the vectors ---------------------------------------------------------------------


def test_numbers_that_follow_from_the_vectors_are_found_again(run):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert verify_run(run, recompute=True) == verify_run(run)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    as_of_format_1(run)
    with pytest.warns(UncheckedRunWarning):
        verify_run(run, recompute=True)


@pytest.mark.parametrize("checked", [True, False])
def test_a_number_that_does_not_follow_from_the_vectors_is_named(run, checked):
    """Even where every checksum fits: who forges a number can write those, too."""
    scores = cm.open_run(run).scores
    place = scores.index[(scores.metric == "mcas") & (scores.component == "mcas") & (scores.concept == "concept 0.80")]
    forged = scores.assign(value=scores.value.where(~scores.index.isin(place[:1]), 0.0))
    checksum = Directory(run).write_table("scores.parquet", pa.Table.from_pandas(forged, preserve_index=False))
    if checked:
        forge(run, files=json.loads((run / "run.json").read_text())["files"] | {"scores.parquet": checksum})
    else:
        as_of_format_1(run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncheckedRunWarning)
        verify_run(run)
        with raises(RunCorruptError, code=Code.CORRUPT, match="1 difference", most_lines=3) as said:
            verify_run(run, recompute=True)
    (line,) = [line for line in str(said.value).splitlines() if "scores.parquet: " in line]
    assert line.startswith("scores.parquet: value of mcas / mcas / concept 0.80")
    assert "stored 0.0, again 1.3" in line


def test_a_row_that_was_taken_out_or_put_in_is_named(run):
    opened = cm.open_run(run)
    scores = opened.scores
    opened.write_scores(scores.assign(metric=["faith", *scores.metric[1:]]).drop(index=1), opened.curves)
    with raises(RunCorruptError, code=Code.CORRUPT, most_lines=5) as said:
        verify_run(run, recompute=True)
    assert "is found again, and not stored" in str(said.value)
    assert "scores.parquet: faith / " in str(said.value)
