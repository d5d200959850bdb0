"""Readers of a run: asked where an answer is missing and never twice, whoever dies, and scored by what they said."""

import hashlib
import json
import shutil
from contextlib import suppress

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import clinometer as cm
from clinometer.api import verify_run
from clinometer.errors import (
    Code,
    EngineError,
    InvalidInputError,
    ModelError,
    RunCorruptError,
    RunError,
    RunMismatchError,
    SuiteError,
)
from clinometer.metrics import corrected_shares, transport
from clinometer.models import Card, Reading
from clinometer.models.images import image_sha256
from clinometer.models.readers import ReadingStopped
from clinometer.models.readers.encoders import EncoderReader
from clinometer.readings.scores import answered_questions, vectors_of_some
from clinometer.report.readings import reader_lines
from clinometer.runs.browse import Reader, piece_of
from clinometer.stats.proportion import wilson_interval
from clinometer.studies.leaning.view import LeaningView
from clinometer.studies.reporting import report_input
from tests import quick
from tests.pipeline.engine_toys import Glance
from tests.raising import raises
from tests.toys import Eye, Notes, Painter, paint, toy_suite

pytestmark = pytest.mark.usefixtures("kept_workers", "shortcuts_of_a_module")

AGE = {"question": "age", "means": {"old": "other"}}


@pytest.fixture(scope="module")
def drawn():
    """A run that nobody has read."""
    return quick.finished(Painter(), toy_suite(), encoder=Eye()).url


@pytest.fixture
def place(drawn, tmp_path):
    shutil.copytree(drawn, tmp_path / "run")
    return tmp_path / "run"


def answers(place, reader="glance"):
    return cm.open_run(place).readings(reader)


def parts(place, reader="glance"):
    return sorted((place / "readings" / reader).glob("part-*.parquet"))


# --- The stage -------------------------------------------------------------------------------------------------------


def test_an_audit_with_a_reader_is_the_audit_and_then_the_reading(tmp_path, place):
    read = cm.read_run(place, reader=Glance())["glance"]
    whole = quick.audit(Painter(), toy_suite(), tmp_path / "whole", encoder=Eye(), reader=Glance())
    pd.testing.assert_frame_equal(whole.readings("glance"), read)
    pd.testing.assert_frame_equal(whole.scores, cm.open_run(place).scores)
    samples = whole.samples.set_index("id")
    assert list(read.id) == list(samples.index)
    assert (read.sha256.to_numpy() == samples.sha256.to_numpy()).all()
    for name in ("concept", "category", "role", "group", "prompt"):
        assert (read[name].to_numpy() == samples[name].to_numpy()).all()
    known = read[read.role == "attribute"]
    assert (known.truth == known.group).all()
    assert read[read.role == "target"].truth.isna().all()
    record = whole.record["readers"]["glance"]
    assert record["questions"]["groups"]["answers"]["other"]["means"] == "other"
    assert "failed" not in record


def test_nobody_is_asked_twice(place):
    reader = Glance(stop_after=30)
    with raises(ModelError, code=Code.INVALID, match="glance: it is tired"):
        cm.read_run(place, reader=reader)
    assert "glance" not in cm.open_run(place).readers.cards
    with raises(RunError, code=Code.UNKNOWN_NAME, match="'glance' .*; give: clinometer read"):
        answers(place)
    again = Glance()
    cm.read_run(place, reader=again)
    assert again.asked == len(answers(place)) - 30  # what came of the part in hand was kept, too
    idle = Glance()
    cm.read_run(place, reader=idle)
    assert idle.asked == 0


def test_what_failed_is_asked_again_and_what_was_refused_is_not(place):
    notes = Notes()
    cm.read_run(place, reader=Glance(fails=[2, 40]), progress=notes)
    assert "2 answers of glance failed; the same command asks for them again" in notes.messages
    assert answers(place).reason.notna().sum() == 2
    again = Glance()
    cm.read_run(place, reader=again)
    assert again.asked == 2
    assert answers(place).reason.isna().all()
    refused = Reading(None, reason="refused: no people")
    cm.read_run(place, reader=Glance("shy", says=refused))
    idle = Glance("shy")
    cm.read_run(place, reader=idle)
    assert idle.asked == 0


def test_a_finished_audit_asks_again_only_what_failed(tmp_path):
    quick.audit(Painter(), toy_suite(), tmp_path / "run", encoder=Eye(), reader=Glance(fails=[1]))
    again, idle = Glance(), Glance()
    quick.audit(Painter(), toy_suite(), tmp_path / "run", encoder=Eye(), reader=again)
    quick.audit(Painter(), toy_suite(), tmp_path / "run", encoder=Eye(), reader=idle)
    assert (again.asked, idle.asked) == (1, 0)


def test_a_reader_that_only_fails_is_stopped(place):
    reader = Glance(says=Reading(None, reason="failed: 500"))
    with raises(ModelError, code=Code.FAILED, match=r"3[2-4] images in a row, .*: 500"):
        cm.read_run(place, reader=reader)
    assert 32 <= reader.asked <= 34  # batches of three at most


class Dim(Glance):
    """Cannot see some pictures, however often it is asked; ``seen`` counts all that it is asked."""

    def __init__(self, unseen):
        super().__init__()
        self.unseen = set(unseen)

    def _reading(self, image, question):
        reading = super()._reading(image, question)
        return Reading(None, reason="failed: 500") if image_sha256(image) in self.unseen else reading


@pytest.mark.thorough
def test_pictures_that_always_fail_keep_no_run_from_its_scores(place):
    """Of 54 all but the first eight: they are asked for three times, and paid for no more often."""
    run = cm.open_run(place)
    images = [run.drawn.decode(each, content) for each, content in run.drawn.images(run.samples.id)]
    hopeless = Dim(map(image_sha256, images[8:]))
    asked = []
    for _ in range(2):
        with suppress(ModelError):
            cm.read_run(place, reader=hopeless)
        asked.append(hopeless.asked - sum(asked))
    assert asked[0] < 54 <= sum(asked)
    assert len(cm.score_run(place, resamples=500))
    table = answers(place)
    assert (table.answer.notna().sum(), len(table)) == (8, 54)
    notes = Notes()
    for _ in range(3):
        cm.read_run(place, reader=hopeless, progress=notes)
    assert hopeless.asked == 8 + 3 * 46
    assert "46 answers of glance failed 3 times and are left out; --retry-failed asks again" in notes.messages
    assert cm.open_run(place).readers.has_finished(hopeless.card, list(cm.open_run(place).suite.questions()))
    again = Glance()
    cm.read_run(place, reader=again, retry_failed=True)
    assert again.asked == 46
    assert answers(place).reason.isna().all()


def test_what_came_before_an_interrupt_is_kept(place):
    class Interrupted(Glance):
        def read(self, images, question):
            readings = super().read(images, question)
            raise ReadingStopped([*readings[:2], *[None] * (len(images) - 2)])

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            cm.read_run(place, reader=Interrupted())
    again = Glance()
    cm.read_run(place, reader=again)
    assert again.asked == 54 - 3 * 2


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [1, 2])
def test_the_answers_do_not_depend_on_the_number_of_workers(place, tmp_path, workers):
    shutil.copytree(place, tmp_path / "here")
    cm.read_run(tmp_path / "here", reader=Glance())
    cm.read_run(place, reader=Glance(), workers=workers)
    assert [part.read_bytes() for part in parts(place)] == [part.read_bytes() for part in parts(tmp_path / "here")]
    assert cm.open_run(place).record["files"] == cm.open_run(tmp_path / "here").record["files"]
    assert verify_run(place) == verify_run(tmp_path / "here")


@pytest.mark.thorough
def test_a_killed_worker_is_replaced(place, tmp_path):
    (tmp_path / "deaths").mkdir()
    notes = Notes()
    reader = Glance(place=tmp_path / "deaths", deaths=2)
    cm.read_run(place, reader=reader, workers=2, progress=notes)
    assert len([message for message in notes.messages if message.startswith("a worker died over part")]) == 2
    assert len(answers(place)) == len(cm.open_run(place).plan)


@pytest.mark.thorough
def test_a_part_that_kills_every_worker_is_told_and_the_next_command_goes_on(place, tmp_path):
    (tmp_path / "deaths").mkdir()
    with raises(EngineError, code=Code.FAILED, field="engine", match="3 .*part"):
        cm.read_run(place, reader=Glance(place=tmp_path / "deaths", deaths=99), workers=1)
    cm.read_run(place, reader=Glance(), workers=2)
    assert len(answers(place)) == len(cm.open_run(place).plan)


def test_workers_add_a_question_to_parts_that_are_there(place):
    cm.read_run(place, reader=Glance())
    first = answers(place)
    reader = Glance()
    cm.read_run(place, reader=reader, question="gender", workers=2)
    both = answers(place)
    assert set(both.question) == {"groups", "gender"}
    pd.testing.assert_frame_equal(both[both.question == "groups"].reset_index(drop=True), first)
    assert verify_run(place) > 0


# --- What an answer hangs on -----------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_an_image_that_was_drawn_anew_is_read_anew_and_the_others_are_not(tmp_path):
    class Moody(Painter):
        """Fails one image of each prompt the first time."""

        def __init__(self, fails):
            super().__init__()
            self.fails = fails

        def generate(self, requests):
            for number, result in enumerate(super().generate(requests)):
                failed = self.fails and number == 0
                yield type(result)(result.id, "failed", None, "it tripped") if failed else result

    out, options = tmp_path / "run", {"encoder": Eye(), "reader": Glance()}
    run = quick.audit(Moody(fails=True), toy_suite(), out, **options)
    lost = set(run.samples[run.samples.status == "failed"].id)
    first = answers(out)
    assert lost
    assert not lost & set(first.id)
    again = Glance()
    quick.audit(Moody(fails=False), toy_suite(), out, encoder=Eye(), reader=again, retry_failed=True)
    assert again.asked == len(lost)
    table = answers(out)
    assert set(table.id) == set(first.id) | lost


def test_an_answer_about_another_image_does_not_count(place):
    cm.read_run(place, reader=Glance())
    run = cm.open_run(place)
    part = run.answers.of_part(run.readers.cards["glance"], 0)
    rows = [row | ({"sha256": "0" * 64} if number == 0 else {}) for number, row in enumerate(part.values())]
    run.answers.write(Glance().card, 0, rows)
    run.end_stage()
    assert len(answers(place)) == len(run.plan) - 1
    again = Glance()
    cm.read_run(place, reader=again)
    assert again.asked == 1
    assert len(answers(place)) == len(run.plan)


def test_a_flipped_bit_is_found_and_only_that_part_is_read_anew(place):
    cm.read_run(place, reader=Glance())
    before = answers(place)
    victim = parts(place)[1]
    content = bytearray(victim.read_bytes())
    content[len(content) // 3] ^= 1
    victim.write_bytes(content)
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"readings/glance/part-00001.*Delete the file"):
        verify_run(place)
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"readings/glance/part-00001"):
        cm.score_run(place, resamples=500)
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"readings/glance/part-00001"):
        answers(place)
    victim.unlink()
    with raises(RunCorruptError, code=Code.CORRUPT, match="missing: readings/glance/part-00001"):
        verify_run(place)
    with raises(RunCorruptError, code=Code.CORRUPT, match="it was written and is missing"):
        answers(place)
    again = Glance()
    cm.read_run(place, reader=again)
    assert again.asked == len(cm.open_run(place).parts[1])
    pd.testing.assert_frame_equal(answers(place), before)
    verify_run(place)


def test_another_reader_of_that_name_is_refused(place):
    cm.read_run(place, reader=Glance())
    with raises(
        RunMismatchError,
        code=Code.MISMATCH,
        match=r"answers of another reader named 'glance' \(sharp None → True\).*delete",
    ):
        cm.read_run(place, reader=Glance(settings={"sharp": True}))
    assert len(answers(place)) == len(cm.open_run(place).plan)
    with raises(RunMismatchError, code=Code.MISMATCH, match=r"reader 'GLANCE' would share readings/glance"):
        cm.read_run(place, reader=Glance("GLANCE"))


def test_a_part_of_another_reader_is_refused(place):
    cm.read_run(place, reader=[Glance(), Glance("other")])
    shutil.copy(parts(place, "other")[0], parts(place)[0])
    record = json.loads((place / "run.json").read_text())
    assert "readings/glance/part-00000.parquet" in record["files"]
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"readings/glance/part-00000"):
        answers(place)


def test_a_question_in_other_words_is_another_question(place, tmp_path):
    cm.read_run(place, reader=Glance(), question="gender")
    other = tmp_path / "gender.yaml"
    other.write_text("name: gender\ntext: Whom do you see?\nanswers: {woman: {text: her}, man: {text: him}}\n")
    with raises(RunMismatchError, code=Code.MISMATCH, match=r"'gender' in other words .*now 'Whom do you see\?'"):
        cm.read_run(place, reader=Glance("other"), question=other)
    assert list(cm.open_run(place).readers.cards) == ["glance"]


# --- Refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("says", "code", "message"),
    [
        (Reading("a cat"), Code.UNKNOWN_NAME, "'a cat' to question groups, .*man, woman, other, none"),
        (Reading(None), Code.WRONG_TYPE, "expected a Reading"),
        ("man", Code.WRONG_TYPE, "expected a Reading"),
        (Reading("man", (0.5, 0.5)), Code.OUT_OF_RANGE, "probabilities .* expected 6 from 0 to 1"),
        (Reading("man", (2.0, -1.0, 0, 0, 0, 0)), Code.OUT_OF_RANGE, "expected 6 from 0 to 1"),
        (Reading("man", (float("nan"),) * 6), Code.OUT_OF_RANGE, "expected 6 from 0 to 1"),
        (Reading("man", ("a",) * 6), Code.OUT_OF_RANGE, "expected 6 from 0 to 1"),
        (Reading("man", reason="failed: it blinked"), Code.WRONG_TYPE, "expected a Reading"),
        (Reading(["man"]), Code.WRONG_TYPE, r"found list as a reading's answer, expected text"),
        (Reading("man", words="a\udc00"), Code.WRONG_TYPE, r"as a reading's words, expected text"),
        (Reading("man", words="a" * 10**6), Code.WRONG_TYPE, "words, expected text of 4,000"),
        (Reading(None, reason=7), Code.WRONG_TYPE, "as a reading's reason, expected text"),
        (Reading("man", size=float("nan")), Code.OUT_OF_RANGE, "found the size nan"),
    ],
)
def test_what_is_no_reading_is_refused(place, says, code, message):
    with raises(ModelError, code=code, match=message):
        cm.read_run(place, reader=Glance(says=says))
    assert verify_run(place) > 0


def test_a_plug_in_that_loses_an_answer_is_refused(place):
    class Lazy(Glance):
        def read(self, images, question):
            return super().read(images, question)[1:]

    with raises(ModelError, code=Code.WRONG_TYPE, match="2 answers to 3 images"):
        cm.read_run(place, reader=Lazy())


def test_a_crash_of_a_reader_is_one_line(place):
    class Broken(Glance):
        def read(self, images, question):
            raise RuntimeError("no such layer")

    with raises(ModelError, code=Code.FAILED, match="^reader glance: .*RuntimeError: no such layer"):
        cm.read_run(place, reader=Broken())


def test_a_question_that_a_reader_cannot_answer_is_refused_before_anything_is_drawn(tmp_path):
    suite = toy_suite(
        readings=[{"name": "unheard", "text": "What?", "answers": {"a": {"text": "x"}, "b": {"text": "y"}}}]
    )
    painter = Painter()
    with raises(ModelError, code=Code.INVALID, match="it knows no such question"):
        quick.audit(painter, suite, tmp_path / "run", encoder=Eye(), reader=Glance())
    assert painter.drawn == 0


def test_an_unfinished_run_is_not_read(tmp_path):
    class Stops(Painter):
        def generate(self, requests):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quick.audit(Stops(), toy_suite(), tmp_path / "run", encoder=Eye())
    with raises(RunError, code=Code.INCOMPLETE, match="54 of 54 images"):
        cm.read_run(tmp_path / "run", reader=Glance())


def test_a_budget_covers_images_and_answers(tmp_path):
    dear, painter = Glance(), Painter()
    dear.price_per_image = 0.01
    images = toy_suite().image_count
    with raises(
        ModelError, code=Code.OVER_BUDGET, match=rf"glance: {images} answers at 0\.01 each cost 0\.54, found no budget"
    ):
        quick.audit(painter, toy_suite(), tmp_path / "run", encoder=Eye(), reader=dear)
    with raises(ModelError, code=Code.OVER_BUDGET, match=r"found a budget of 0\.5; give --budget 0\.54 or more"):
        quick.audit(painter, toy_suite(), tmp_path / "run", encoder=Eye(), reader=dear, budget=0.5)
    assert (painter.drawn, dear.asked) == (0, 0)
    run = quick.audit(painter, toy_suite(), tmp_path / "run", encoder=Eye(), reader=dear, budget=0.54)
    cm.read_run(run.url, reader=dear)  # nothing is missing, so nothing costs
    with raises(
        ModelError, code=Code.OVER_BUDGET, match=rf"{images} answers at 0\.01 each cost 0\.54, found a budget of 0\.1"
    ):
        cm.read_run(run.url, reader=dear, question="gender", budget=0.1)
    assert dear.asked == images


def test_a_suite_without_groups_says_how_to_ask(place):
    suite = cm.open_run(place).suite
    assert [question.name for question in suite.questions()] == ["groups"]
    with raises(SuiteError, code=Code.UNKNOWN_NAME, match="no question named 'hair'"):
        cm.read_run(place, reader=Glance(), question="hair")


# --- Several questions, and the scores -------------------------------------------------------------------------------


def test_a_suite_asks_several_questions(tmp_path):
    suite = toy_suite(readings=[AGE, "gender"])
    run = quick.audit(Painter(), suite, tmp_path / "run", encoder=Eye(), reader=Glance())
    table = run.readings("glance")
    assert list(dict.fromkeys(table.question)) == ["age", "gender"]
    assert set(table[table.group == "other"].truth.dropna()) == {"old"}
    assert set(table[(table.group == "man") & (table.question == "gender")].truth) == {"man"}
    rows = run.scores[(run.scores.metric == "reading") & (run.scores.setting == "age")]
    assert set(rows[rows.component == "share"].group) == {"child", "young", "middle", "other"}
    refused = rows[rows.component == "corrected_share"]
    assert set(refused.reason_code) == {"how often the reader errs is not known"}
    assert refused.reason.str.startswith("no image is known to show child, young, middle").all()
    assert refused.value.isna().all()


def test_scores_are_those_of_the_counts(place):
    read = cm.read_run(place, reader=Glance())["glance"]
    scores = cm.open_run(place).scores
    rows = scores[(scores.metric == "reading") & (scores.encoder == "glance")]
    groups = ["man", "woman", "other"]
    column = read.answer.map({group: k for k, group in enumerate(groups)}).fillna(3).astype(int)
    known = np.zeros((3, 4), int)
    for k, group in enumerate(groups):
        known[k] = np.bincount(column[read.truth == group], minlength=4)
    for concept in read.concept[read.concept != ""].unique():
        counts = np.bincount(column[read.concept == concept], minlength=4)
        of = rows[rows.concept == concept].set_index(["component", "group"])
        found = corrected_shares(counts, known)
        for k, group in enumerate(groups):
            assert of.value["share", group] == counts[k] / counts.sum()
            np.testing.assert_allclose(of.value["corrected_share", group], found.share[k])
            np.testing.assert_allclose(of.low["corrected_share", group], found.low[k])
            assert of.n_a["corrected_share", group] == known[k].sum()
        assert of.value["unread", ""] == counts[3] / counts.sum()
    assert cm.score_run(place)[lambda t: t.metric == "reading"].shape[0] == len(rows)


def test_the_shares_of_a_run_are_those_of_the_reader_clip_with_its_encoder(tmp_path):
    words = {"man": ["he", "his"], "woman": ["she", "hers"], "other": ["they"]}
    answers = {group: {"text": group, "labels": own} for group, own in words.items()}
    pair = {name: answers[name] for name in ("man", "woman")}
    asked = [{"name": name, "text": "Whom?", "answers": own} for name, own in (("pair", pair), ("all", answers))]
    suite = toy_suite(readings=asked)
    run = quick.audit(Painter(), suite, tmp_path / "run", encoder=Eye(), reader=EncoderReader(Eye()))
    rows = run.scores[run.scores.encoder == "eye"]

    def numbers(metric, component, *by, **equal):
        own = rows[(rows.metric == metric) & (rows.component == component)]
        for name, value in equal.items():
            own = own[own[name] == value]
        return own.set_index(list(by)).value.to_dict()

    shares = numbers("share", "share", "concept")
    assert len(set(shares.values())) > 1
    assert numbers("reading", "share", "concept", setting="pair", group="man") == shares
    by_cosines = numbers("reader", "confusion", "group", "setting")
    by_reader = numbers("reading", "confusion", "group", "setting")
    assert len(by_cosines) == 9
    assert {place: by_reader[place[0], f"all: {place[1]}"] for place in by_cosines} == by_cosines
    read, seen = run.readings("eye"), Reader(run, "eye", words)
    piece = piece_of(run, 0)
    seen.learn(piece)
    in_explorer = {piece.columns["id"][row]: reading.group for row, reading in seen.read(piece)}
    told = read[read.question == "all"].set_index("id").answer
    assert in_explorer == {identifier: told[identifier] for identifier in in_explorer}


@pytest.mark.thorough
def test_the_verdicts_of_the_reader_that_is_named_stand(tmp_path):
    class Blind(Glance):
        """Says man of whatever it sees."""

        def _reading(self, image, question):
            return Reading("man" if image.getpixel((0, 0))[0] % 9 else "woman")

    readers = [Blind("blind"), Glance()]
    with raises(RunError, code=Code.UNKNOWN_NAME, field="verdict_reader", match="'nobody', .*blind, glance"):
        quick.audit(Painter(), toy_suite(), tmp_path / "no", encoder=Eye(), reader=readers, verdict_reader="nobody")
    run = quick.audit(Painter(), toy_suite(target=12), tmp_path / "run", encoder=Eye(), reader=readers)

    def decides():
        rows = cm.open_run(run.url).scores[lambda table: (table.metric == "reading") & (table.flag == "decides")]
        (separation,) = rows[rows.component == "separation"].to_dict("records")
        return set(rows.encoder), separation["reason"]

    best, why = decides()
    assert best == {"glance"}
    assert "tells the groups apart best" in why
    cm.score_run(run.url, verdict_reader="blind")
    named, why = decides()
    assert named == {"blind"}
    assert why.startswith("the reader that was named")
    assert cm.open_run(run.url).record["options"]["verdict_reader"] == "blind"
    cm.score_run(run.url, verdict_reader="")
    assert decides()[0] == {"glance"}


def test_labelled_pictures_of_a_folder_show_how_a_reader_errs(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder, labels = tmp_path / "labelled", ["file,group"]
    folder.mkdir()
    for number in range(30):
        group, word = (("man", "men"), ("woman", "women"), ("other", "others"))[number % 3]
        paint(f"old {word}", number).save(folder / f"{number}.png")
        labels.append(f"{number}.png,{group}")
    (folder / "labels.csv").write_text("\n".join(labels) + "\n")
    cm.read_run(place, reader=Glance(), truth=folder / "labels.csv")
    run = cm.open_run(place)
    rows = run.scores[lambda table: (table.metric == "reading") & (table.component == "corrected_share")]
    assert set(rows.test) == {"labelled pictures of a folder, which need not be misread as these are"}
    assert set(rows.n_a) == {10}
    assert verify_run(place) > 0
    idle = Glance()
    cm.read_run(place, reader=idle, truth=folder / "labels.csv")
    assert idle.asked == 0
    with raises(InvalidInputError, code=Code.TOO_MANY, field="truth", match="found 2 questions"):
        cm.read_run(place, reader=Glance(), question=["gender", "age"], truth=folder / "labels.csv")
    (place / "readings/glance/known.parquet").unlink()
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"known\.parquet"):
        verify_run(place)


def test_the_runs_own_vectors_say_whether_attribute_images_look_like_a_concept_s(place):
    cm.read_run(place, reader=Glance())
    run = cm.open_run(place)
    table, vectors = run.readings("glance"), run.embeddings("eye")
    (asked,) = answered_questions(run, "glance", table, vectors_of_some(run, [table]))
    first = table[(table.role == "target") & (table.concept == asked.concepts[0].concept)]
    expected = np.stack([vectors[key] / np.linalg.norm(vectors[key]) for key in first.id])
    np.testing.assert_allclose(asked.concepts[0].pictures.vectors, expected, rtol=1e-6)
    assert np.isfinite(asked.pictures.vectors).all()
    found = transport(asked.concepts[0].pictures, asked.pictures, asked.truths, groups=len(asked.groups))
    assert "vectors" in {each.measure for each in found.tests}
    rows = run.scores[(run.scores.metric == "reading") & (run.scores.component == "transport")].set_index("concept")
    assert rows.flag[asked.concepts[0].concept] == found.answer
    assert rows.reason[asked.concepts[0].concept] == found.reason


def test_labelled_pictures_are_embedded_by_an_encoder_of_the_run(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labelled").mkdir()
    words = (("man", "men"), ("woman", "women"), ("other", "others"))
    for number in range(30):
        paint(f"old {words[number % 3][1]}", number).save(tmp_path / f"labelled/{number}.png")
    labels = tmp_path / "labelled/labels.csv"
    labels.write_text("\n".join(["file,group", *(f"{n}.png,{words[n % 3][0]}" for n in range(30))]) + "\n")
    cm.read_run(place, reader=Glance(), truth=labels, encoder=Eye())
    known = pq.read_table(place / "readings/glance/known.parquet").to_pandas()
    assert set(known.encoder) == {Eye().card.fingerprint}
    run = cm.open_run(place)
    table = run.readings("glance")
    (asked,) = answered_questions(run, "glance", table, vectors_of_some(run, [table]))
    assert asked.pictures.vectors.shape == (30, 3)
    assert asked.concepts[0].pictures.vectors.shape[1] == 3
    with raises(InvalidInputError, code=Code.UNKNOWN_NAME, match="encoder other"):
        cm.read_run(place, reader=Glance(), truth=labels, encoder=Eye("other"))


class Blinking(Glance):
    """Reads nothing in a third of the pictures, and says so; of "old" ones it takes half of the red for green."""

    def _reading(self, image, question):
        seen = super()._reading(image, question)
        mark = int(np.asarray(image).sum())
        if mark % 3 == 0:
            return Reading(None, reason="unread: it blinked")
        return seen


def test_labels_carry_their_models_and_concepts_into_a_run_and_some_may_be_unread(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "labelled"
    folder.mkdir()
    words = (("man", "men"), ("woman", "women"), ("other", "others"))
    rows = []
    for number in range(90):
        (group, word), model = words[number % 3], ("one", "two")[number % 2]
        paint(f"old {word}", number).save(folder / f"{number}.png")
        # people who label the second model's pictures see half of the men as women
        seen = "woman" if model == "two" and group == "man" and number % 4 else group
        rows.append((f"{number}.png", seen, model, ("cook", "judge", "pilot")[number % 5 % 3]))
    table = pd.DataFrame(rows, columns=["file", "group", "model", "concept"])
    widths = {}
    for name, columns in (("plain", ["file", "group"]), ("kinds", [*table.columns])):
        labels = folder / f"{name}.csv"
        table[columns].to_csv(labels, index=False)
        cm.read_run(place, reader=Blinking(), truth=labels)
        run = cm.open_run(place)
        known = pq.read_table(place / "readings/glance/known.parquet").to_pandas()
        assert known.answer.isna().any()
        assert known.model.notna().all() == (name == "kinds")
        own = run.scores[(run.scores.metric == "reading") & (run.scores.component == "corrected_share")]
        widths[name] = (own.high - own.low).mean()
        read = run.scores[(run.scores.metric == "reading") & (run.scores.component == "read_share")]
        lost = run.scores[(run.scores.metric == "reading") & (run.scores.component == "unread")].value.gt(0)
        assert read.bound_low.notna().sum() == 3 * lost.sum() > 0
        assert (read.bound_low.dropna() <= read.low[read.bound_low.notna()]).all()
    assert widths["kinds"] > widths["plain"], widths


def test_old_runs_open_and_have_no_rows_of_readers(place):
    run = cm.open_run(place)
    assert run.readers.cards == {}
    assert "readers" not in run.record
    assert "reading" not in set(run.scores.metric)


def test_the_part_files_hold_what_the_page_says(place):
    cm.read_run(place, reader=Glance())
    table = pq.read_table(parts(place)[0])
    assert table.column_names == [
        "id",
        "sha256",
        "question",
        "answer",
        "probabilities",
        "words",
        "reason",
        "prompt_sha256",
        "size",
    ]
    assert json.loads(table.schema.metadata[b"card"])["name"] == "glance"
    assert table.schema.metadata[b"reader"].decode() == Glance().card.fingerprint


# --- open questions ---------------------------------------------------------------------------------------------------


class Talk(Glance):
    """Says in words which colour a picture has, in one of several spellings."""

    def possible_answers(self, question):
        return () if question.is_open else super().possible_answers(question)

    def _reading(self, image, question):
        if not question.is_open:
            return super()._reading(image, question)
        self.asked += 1
        red, _, blue = np.asarray(image, float).mean(axis=(0, 1)) / 255
        word = ("A red one.", "red one")[self.asked % 2] if red > blue else "Blue!"
        return Reading(word, words=word)


def test_an_open_question_is_asked_of_a_run_and_held_against_its_concepts(place, tmp_path):
    (tmp_path / "colour.yaml").write_text("name: colour\nkind: open\ntext: Which colour has the person?")
    talk = Talk("talk")
    cm.read_run(place, reader=[talk, Talk("chat")], question=["gender", tmp_path / "colour.yaml"])
    table = answers(place, "talk")
    told = cm.open_answers(place, reader="talk", question="colour")
    mine = table[(table.question == "colour") & (table.role == "target")].drop_duplicates(["concept", "sha256"])
    assert set(told.clusters) <= {"red one", "blue"}
    assert told.found.counts.sum() == len(mine)
    assert list(told.found.concepts) == sorted(set(mine.concept))
    reading = cm.open_run(place).scores.query("metric == 'reading' and encoder == 'talk'")
    rows = reading[reading.setting == "colour"].set_index(["component", "concept", "group"])
    assert set(reading.setting) >= {"gender", "colour"}
    for c, concept in enumerate(told.found.concepts):
        for k, answer in enumerate(told.found.answers):
            row = rows.loc["open_share", concept, answer]
            assert (row.n_a, row.n_target) == (told.found.counts[c, k], told.found.counts[c].sum())
            assert (row.low, row.high) == (wilson_interval(row.n_a, row.n_target).low, row.high)
            assert row.null == told.found.counts[:, k].sum() / len(mine)
        of, row = told.found.each[c], rows.loc["dependence", concept, ""]
        assert (row.value, row.low, row.high, row.p, row.q, row.null) == (
            of.value, of.low, of.high, of.p, of.q, of.null
        )  # fmt: skip
        assert rows.loc["open_unread", concept, ""].value == 0
    assert rows.loc["dependence", "", ""].p == told.found.overall.p
    asked = talk.asked

    class Palette(Eye):
        """Takes all words for one."""

        def encode_texts(self, texts):
            return np.ones((len(texts), 3), np.float32)

    cm.read_run(place, reader=talk, question=["gender", tmp_path / "colour.yaml"], encoder=Palette("palette"))
    assert talk.asked == asked
    assert verify_run(place) > 0
    assert "palette" in (put := cm.open_answers(place, reader="talk", question="colour")).clustered_by
    assert len(put.found.answers) == 1
    scores = cm.score_run(place)
    (all_alike,) = scores[
        (scores.component == "dependence") & (scores.concept == "") & (scores.encoder == "talk")
    ].reason
    assert all_alike == "all images have one answer"
    (place / "readings/talk/clusters.parquet").unlink()
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"missing: readings/talk/clusters\.parquet"):
        verify_run(place)
    (tmp_path / "far.yaml").write_text("name: far\nkind: open\ntext: X\ncounterfactuals: {concept 0.20: [astronaut]}")
    with raises(InvalidInputError, code=Code.UNKNOWN_NAME, match="question far, counterfactuals: .*'astronaut'"):
        cm.read_run(place, reader=talk, question=tmp_path / "far.yaml")
    assert talk.asked == asked
    with raises(InvalidInputError, code=Code.UNKNOWN_NAME, field="question", match="found 'gender', .*talk"):
        cm.open_answers(place, reader="talk", question="gender")


def test_the_command_prints_what_was_said_of_a_run(place, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from clinometer.cli.app import app
    from tests.models.openai.image_server import ImageServer

    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-tests")
    (tmp_path / "colour.yaml").write_text("name: colour\nkind: open\ntext: Which colour has the person?")

    prompts = set()

    def behaviour(number, asked):
        prompts.add(hashlib.sha256(asked["messages"][0]["content"][0]["text"].encode()).hexdigest())
        message = {"role": "assistant", "content": ("A hat", "the cap", "unknown")[number % 3]}
        return 200, {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}, {}

    with ImageServer(behaviour) as server:
        told = CliRunner().invoke(app, [
            "read", str(place), "--reader", "openai:seer", "--price", "0", "--base-url", server.url, "--question",
            str(tmp_path / "colour.yaml"),
        ])  # fmt: skip
    assert told.exit_code == 0, told.output
    assert "seer, colour: Which colour has the person?" in told.output
    assert "Put together: the same words, once normalised." in told.output
    assert set(answers(place, "seer").prompt_sha256) == prompts
    assert len(prompts) == 1
    assert verify_run(place) > 0
    run = cm.open_run(place)
    card = Card(**json.loads(pq.read_schema(parts(place, "seer")[0]).metadata[b"card"]))
    rows = run.answers.of_part(run.readers.cards["seer"], 0).values()
    run.answers.write(card, 0, [row | {"prompt_sha256": "ab" * 32} for row in rows])
    run.end_stage()
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"'colour' .*\(abababab…\)"):
        verify_run(place)


# --- A reader that changes -------------------------------------------------------------------------------------------


class Moody(Glance):
    """Says the same of all pictures from its n-th answer on."""

    def __init__(self, changes_at, **options):
        super().__init__("moody", **options)
        self.changes_at = changes_at

    def _reading(self, image, question):
        reading = super()._reading(image, question)
        return Reading("man", words="a mood") if self.asked > self.changes_at else reading


def drift(place):
    (row,) = cm.open_run(place).scores[lambda rows: rows.component == "drift"].itertuples()
    return row


def test_a_reader_that_stays_the_same_is_asked_again_and_not_flagged(place):
    steady = Glance()
    cm.read_run(place, reader=steady, check_drift=3)
    row, run = drift(place), cm.open_run(place)
    assert steady.asked == len(run.samples) + 3 * row.n_a
    assert row.n_a == len(parts(place)) + 3  # four rounds at first, one before each further part, one at the end
    assert (row.value, row.flag, row.n_target) == (0.0, "", 3)
    assert verify_run(place) > 0
    idle = Glance()
    cm.read_run(place, reader=idle)  # all is read: nothing is asked again, and what was is kept
    assert (idle.asked, drift(place).n_a) == (0, row.n_a)
    cm.read_run(place, reader=Glance(), check_drift=3)  # but where somebody wants to know
    assert drift(place).n_a == row.n_a + 1


def test_a_reader_that_changes_is_flagged_from_there_on_and_nothing_is_lost_when_it_is_stopped(place):
    tired = Moody(10**6, stop_after=40)
    with raises(ModelError, code=Code.INVALID, match="it is tired"):
        cm.read_run(place, reader=tired, check_drift=4)
    before = pq.read_table(place / "readings/moody/again.parquet").to_pandas()
    cm.read_run(place, reader=Moody(30))  # the run keeps that it is asked again
    again = pq.read_table(place / "readings/moody/again.parquet").to_pandas()
    pd.testing.assert_frame_equal(again.iloc[: len(before)], before)
    row, run = drift(place), cm.open_run(place)
    assert (row.flag, row.p <= 0.05, row.value > row.null) == ("the reader changed", True, True)
    assert row.setting.startswith("part ")
    own = run.scores[(run.scores.encoder == "moody") & (run.scores.metric == "reading")]
    assert {"the reader changed", "decides"} <= set(own.flag)
    assert "" not in set(own.flag)
    assert own[own.verdict != ""].depends_on.str.contains("drift").all()
    assert any("moody changed before part" in line for line in reader_lines(LeaningView.of(report_input(run))))


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ({"check_drift": -1}, Code.OUT_OF_RANGE, "found -1"),
        ({"check_drift": 2, "workers": 2}, Code.CONFLICT, "found beside 2 workers"),
    ],
)
def test_asking_again_takes_a_number_and_one_process(place, given, code, said):
    with raises(InvalidInputError, code=code, field="check_drift", match=said):
        cm.read_run(place, reader=Glance(), **given)


def test_asking_again_counts_towards_the_budget(place):
    reader = Glance()
    reader.price_per_image = 1.0
    images = len(cm.open_run(place).samples)
    with raises(ModelError, code=Code.OVER_BUDGET, match=f"{images + 2 * 10} answers at 1 each cost"):
        cm.read_run(place, reader=reader, check_drift=2, budget=float(images))
    assert reader.asked == 0


@pytest.mark.thorough
def test_a_server_that_changes_its_mind_is_told(place, tmp_path, monkeypatch):
    from tests.models.openai.image_server import ImageServer

    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-tests")
    images = len(cm.open_run(place).samples)

    def behaviour(number, asked):
        message = {"role": "assistant", "content": "man" if number < images else "woman"}
        return 200, {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}, {}

    with ImageServer(behaviour) as server:
        cm.read_run(place, reader="openai:seer", base_url=server.url, price=0, check_drift=6)
    row = drift(place)
    assert (row.encoder, row.flag, row.null) == ("seer", "the reader changed", 0.0)
    assert row.value == 1.0
