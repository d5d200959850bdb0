"""An editing study from the suite to the page, on a real tiny pipeline and on an editor whose edits are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import clinometer as cm
from clinometer.errors import Code, ModelError, RunCorruptError, SuiteError
from clinometer.models import load_generator, reference
from clinometer.models.images import sha256
from clinometer.models.protocols import Card, EditRequest, GenerationResult
from clinometer.runs.samples import SAMPLE_SCHEMA
from clinometer.studies.editing.page import PAGE
from tests import quick
from tests.builders import tiny_clip, tiny_stable_diffusion
from tests.models.diffusers.families import save_family
from tests.raising import raises
from tests.report.page import Page
from tests.toy_editing import Reader, Recolourer, rows, toy_suite
from tests.toys import Notes, Painter


def test_edits_that_all_fail_are_no_run(tmp_path: Path) -> None:
    class Broken(Recolourer):
        def edit(self, requests: list[EditRequest]):
            yield from (GenerationResult(request.id, "failed", None, "no brush") for request in requests)

    with raises(ModelError, code=Code.FAILED, match="recolourer: .*24 .*no brush"):
        quick.audit(Broken(), toy_suite(), tmp_path / "run", encoder=Reader())
    assert cm.open_run(tmp_path / "run").samples.status.eq("ok").sum() == 6
    run = quick.audit(Recolourer(), toy_suite(), tmp_path / "run", encoder=Reader())
    assert run.samples.status.eq("ok").all()


@pytest.mark.pages
def test_the_known_flips_are_measured(tmp_path: Path) -> None:
    run = quick.audit(Recolourer(), toy_suite(), tmp_path / "run", encoder=Reader())
    flips = rows(run, "flip_rate").set_index(["group", "category", "setting"]).value
    assert flips["women", "high-paid", "strength 1"] == 1
    assert flips.drop(("women", "high-paid", "strength 1")).eq(0).all()
    (asymmetry,) = rows(run, "flip_asymmetry", category="high-paid", setting="strength 1").value
    assert asymmetry == 1
    kept = rows(run, "identity", category="low-paid").value
    assert kept.to_numpy() == pytest.approx(1)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "a portrait of a woman comes to read as a man" in page or "too few images to tell whether editing" in page
    heads = Page(page.split('aria-label="Identity kept, scrollable">')[1].split("</div>")[0]).find("th")
    columns = [head.text for head in heads if head.attributes["scope"] != "row"]
    assert columns == ["high-paid", "low-paid", "Portraits", *["strength 0.5", "strength 1"] * 2]


@pytest.mark.pages
def test_what_was_not_measured_is_not_called_no_difference(tmp_path: Path) -> None:
    run = quick.audit(Recolourer(fail="a woman"), toy_suite(), tmp_path / "run", encoder=Reader())
    assert rows(run, "flip_asymmetry").verdict.eq("not measured").all()
    assert rows(run, "ita_change").verdict.eq("not measured").all()  # its pictures show no skin
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Whom editing flips could not be judged" in page
    assert "No change of skin tone could be judged" in page
    assert "images to tell" not in page.split("</header>")[0]


@pytest.mark.pages
def test_portraits_that_are_one_picture_count_once_and_are_said_not_to_be_missing(tmp_path: Path) -> None:
    class Fixed(Recolourer):
        def _paint(self, colour: tuple[int, int, int], seed: int) -> Image.Image:
            return super()._paint(colour, 0 if colour == (40, 200, 40) else seed)

    run = quick.audit(Fixed(), toy_suite(), tmp_path / "run", encoder=Reader())
    flips = rows(run, "flip_rate", category="low-paid", setting="strength 1").set_index("group")
    assert flips.n_target.to_dict() == {"women": 1, "men": 3}
    assert not run.scores.n_missing.any()
    assert not run.scores.depends_on.any()
    assert ", counted once" in (tmp_path / "run" / "report.html").read_text()
    (difference,) = cm.compare(run, quick.audit(Recolourer(), toy_suite(), tmp_path / "other", encoder=Reader()))
    compared = difference.scores
    assert not compared.n_missing.any()
    assert compared[(compared.component == "flip_rate") & (compared.group == "women")].n_target.max() == 1


@pytest.mark.thorough
@pytest.mark.pages
def test_edits_of_a_portrait_that_was_refused_are_missing_and_the_page_says_so(tmp_path: Path) -> None:
    class Shy(Recolourer):
        def generate(self, requests):
            for order, result in enumerate(super().generate(requests)):
                yield replace(result, status="refused", image=None, reason="no") if order == 0 else result

    run = quick.audit(Shy(), toy_suite(images={"group": 12}), tmp_path / "run", encoder=Reader())
    refused = run.samples[run.samples.status != "ok"]
    assert (refused.role == "edit").any()
    flips = rows(run, "flip_rate", category="high-paid", setting="strength 1").set_index("group")
    assert flips.n_missing.sum() == (refused.role == "edit").sum() / 4
    lacking = flips[flips.n_missing > 0]
    assert (lacking.bound_low <= lacking.low).all()
    (asymmetry,) = rows(run, "flip_asymmetry", category="high-paid", setting="strength 1").itertuples()
    assert asymmetry.bound_low < asymmetry.low
    page = (tmp_path / "run" / "report.html").read_text()
    assert "filled in either way the interval is" in page


def test_the_summary_of_two_encoders_is_that_of_the_first(tmp_path: Path) -> None:
    other = type("Other", (Reader,), {"card": Card("encoder", "other", "toy")})
    run = quick.audit(Recolourer(), toy_suite(), tmp_path / "run", encoder=[Reader(), other()])
    summary = PAGE.summary(run.suite, run.scores)
    assert [row[0] for row in summary.rows] == [
        f"{kind}, strength {strength}" for kind in ("High-paid", "Low-paid") for strength in ("0.5", "1")
    ]
    assert summary.verdicts == "4 too few images to tell"
    assert summary.title.startswith("Flip asymmetry, read by reader:")


def test_an_encoder_that_reads_no_text_is_refused_before_it_is_part_of_a_run(tmp_path: Path) -> None:
    class Blind:
        card = Card("encoder", "blind", "toy")
        encode_images = Reader.encode_images

    run = quick.audit(Recolourer(), toy_suite(), tmp_path / "run", encoder=Reader())
    with raises(ModelError, code=Code.UNSUPPORTED, match="blind: .*editing"):
        cm.score_run(run.url, encoder=Blind())
    assert cm.score_run(run.url).equals(run.scores)
    assert list(cm.open_run(run.url).encoder_cards) == ["reader"]


def test_edits_follow_their_portraits(tmp_path: Path) -> None:
    run = quick.audit(Recolourer(), toy_suite(), tmp_path / "run", encoder=Reader())
    samples = run.samples
    edits = samples[samples.role == "edit"]
    assert len(edits) == 6 * 2 * 2
    assert set(edits.source) == set(samples.id[samples.role == "portrait"])
    assert edits.groupby("source").seed.nunique().eq(1).all()  # one noise a portrait, whatever is asked of it


def test_a_killed_run_goes_on_to_the_same_numbers(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        quick.audit(Recolourer(stop_after=13), toy_suite(), tmp_path / "run", encoder=Reader())
    resumed = quick.audit(Recolourer(), toy_suite(), tmp_path / "run", encoder=Reader())
    whole = quick.audit(Recolourer(), toy_suite(), tmp_path / "other", encoder=Reader())
    assert resumed.scores.equals(whole.scores)


def test_lost_portraits_cost_their_own_edits(tmp_path: Path) -> None:
    run = quick.audit(Recolourer(fail="a man"), toy_suite(), tmp_path / "run", encoder=Reader())
    samples = run.samples
    lost = samples[(samples.role == "edit") & (samples.group == "men")]
    assert lost.status.eq("failed").all()
    assert lost.reason.str.contains("its portrait").all()
    (men,) = rows(run, "flip_rate", group="men", category="high-paid", setting="strength 1").to_dict("records")
    assert np.isnan(men["value"])
    assert men["reason"] == "nothing was measured"
    assert rows(run, "flip_rate", group="women").value.notna().all()


def test_a_model_that_cannot_edit_is_refused_before_drawing(tmp_path: Path) -> None:
    with raises(ModelError, code=Code.UNSUPPORTED, match="painter"):
        quick.audit(Painter(), toy_suite(), tmp_path / "run", encoder=Reader())
    assert not (tmp_path / "run").exists()


def test_portraits_from_a_face_folder(tmp_path: Path) -> None:
    for person in range(5):
        for code, colour in (("WF", (40, 200, 40)), ("WM", (200, 40, 40))):
            pixels = np.array(colour) + np.random.default_rng(person).integers(-20, 20, (16, 16, 3))
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / f"CFD-{code}-{person:03}-001-N.png")
    run = quick.audit(Recolourer(), toy_suite(), tmp_path / "run", encoder=Reader(), portraits=tmp_path)
    assert len(run.samples[run.samples.role == "portrait"]) == 6
    assert rows(run, "flip_rate", group="women", category="high-paid", setting="strength 1").value.eq(1).all()
    assert run.model_card["settings"]["portraits"]["sha256"]


def test_given_portraits_are_no_answers_of_the_model(tmp_path: Path) -> None:
    """One that refuses every edit refuses all it was asked, and a portrait of one colour was refused by nobody."""

    class Refuser(Recolourer):
        def edit(self, requests: list[EditRequest]):
            yield from (GenerationResult(request.id, "refused", None, "not allowed") for request in requests)

    for person in range(3):
        for code, colour in (("WF", (40, 200, 40)), ("WM", (200, 40, 40))):
            pixels = np.array(colour) + np.random.default_rng(person).integers(-20, 20, (16, 16, 3))
            pixels = np.full_like(pixels, 90) if person == 2 else pixels
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / f"CFD-{code}-{person:03}-001-N.png")
    given = {"encoder": Reader(), "portraits": tmp_path}
    obliging = quick.audit(Recolourer(), toy_suite(), tmp_path / "run", **given)
    assert not obliging.scores.metric.eq("refusal").any()
    refusing = quick.audit(Refuser(), toy_suite(), tmp_path / "refusing", **given)
    rates = refusing.scores[(refusing.scores.metric == "refusal") & (refusing.scores.component == "rate")]
    assert rates.value.eq(1).all(), rates
    (found,) = cm.compare(obliging, refusing)
    compared = found.scores[(found.scores.component == "refusal_rate")]
    assert compared.value.eq(1).all(), compared


def test_what_was_done_to_given_portraits_is_told(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 20, (16, 16, 3))
    for code, colour in (("WF", (40, 200, 40)), ("WM", (200, 40, 40))):
        portrait = Image.fromarray((np.array(colour) + noise).astype(np.uint8))
        (portrait.quantize(4) if code == "WF" else portrait).save(tmp_path / f"CFD-{code}-001-001-N.png")
    notes = Notes()
    quick.audit(Recolourer(), toy_suite(), tmp_path / "run", encoder=Reader(), portraits=tmp_path, progress=notes)
    assert "converted as they were read, and how many images: palette resolved (1)" in notes.messages


def test_a_pipeline_without_image_to_image_is_refused_before_drawing(tmp_path: Path) -> None:
    model = load_generator(str(save_family("pixart", tmp_path)), device="cpu")
    with raises(ModelError, code=Code.UNSUPPORTED, match="pixart: .*PixArtSigmaPipeline"):
        quick.audit(model, toy_suite(), tmp_path / "run", encoder=Reader())
    assert not (tmp_path / "run").exists()


def test_a_portrait_that_is_no_picture_costs_its_own_edits(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 20, (16, 16, 3))
    for code, colour in (("WF", (40, 200, 40)), ("WM", (200, 40, 40))):
        Image.fromarray((np.array(colour) + noise).astype(np.uint8)).save(tmp_path / f"CFD-{code}-001-001-N.png")
    (tmp_path / "CFD-WF-002-001-N.png").write_bytes(b"no picture")
    run = quick.audit(Recolourer(), toy_suite(), tmp_path / "run", encoder=Reader(), portraits=tmp_path)
    (broken,) = run.samples[(run.samples.role == "portrait") & (run.samples.status == "failed")].to_dict("records")
    assert "not an image" in broken["reason"]
    lost = run.samples[run.samples.source == broken["id"]]
    assert lost.reason.eq(f"its portrait {broken['id']} is missing").all()
    assert rows(run, "flip_rate", group="women", category="high-paid", setting="strength 1").n_target.eq(1).all()


def test_a_damaged_portrait_is_named_and_not_left_out(tmp_path: Path) -> None:
    run = quick.audit(Recolourer(), toy_suite(), tmp_path / "run", encoder=Reader())
    rows = run.directory.read_table("samples/part-00000.parquet").to_pylist()
    rows[2]["image"]["bytes"] = rows[2]["image"]["bytes"][:60]
    rows[2]["sha256"] = sha256(rows[2]["image"]["bytes"])
    run.ledger.write_table("samples/part-00000.parquet", pa.Table.from_pylist(rows, schema=SAMPLE_SCHEMA))
    with raises(RunCorruptError, code=Code.CORRUPT, match="image 5fc9e6640c248694"):
        cm.score_run(run.url)
    for part in run.parts:  # those with edits are drawn again from their portraits
        if run.parts[part][0].source:
            run.directory.remove(f"samples/part-{part:05d}.parquet")
    with raises(RunCorruptError, code=Code.CORRUPT, match="image 5fc9e6640c248694"):
        quick.audit(Recolourer(), toy_suite(), run.url, encoder=Reader())


def test_a_model_that_cannot_edit_given_portraits_is_refused(tmp_path: Path) -> None:
    for code in ("WF", "WM"):
        Image.new("RGB", (16, 16), "white").save(tmp_path / f"CFD-{code}-001-001-N.png")
    with raises(ModelError, code=Code.UNSUPPORTED, match="painter"):
        quick.audit(Painter(), toy_suite(), tmp_path / "run", encoder=Reader(), portraits=tmp_path)


@pytest.mark.pages
def test_a_group_of_one_portrait_has_numbers_and_says_what_it_lacks(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(120, 200, (2, 16, 16, 3)).astype(np.uint8)
    for code, image in zip(("WF", "WM"), pixels, strict=True):
        Image.fromarray(image).save(tmp_path / f"CFD-{code}-001-001-N.png")
    run = quick.audit(Recolourer(), toy_suite(), tmp_path / "run", encoder=Reader(), portraits=tmp_path)
    assert rows(run, "flip_rate").n_target.eq(1).all()
    assert rows(run, "flip_rate").value.notna().all()
    (kept,) = rows(run, "identity", group="women", category="low-paid", setting="strength 0.5").to_dict("records")
    assert kept["value"] == pytest.approx(1)
    assert np.isnan(kept["low"])
    assert kept["reason"] == "one cluster has no spread"
    assert (run.directory.read_bytes("report.html").decode()).count("<section") > 4


def test_portraits_without_skin_have_no_tone_and_say_so(tmp_path: Path) -> None:
    run = quick.audit(Recolourer(), toy_suite(), tmp_path / "run", encoder=Reader())  # women are painted green
    for component in ("ita", "ita_change"):
        women = rows(run, component, group="women", category="low-paid")
        assert women.value.isna().all()
        assert women.reason.eq("nothing was measured").all()
    assert rows(run, "unknown_tone", group="women", category="low-paid").value.eq(1).all()
    assert rows(run, "average_face_ita_change", group="women", category="low-paid").reason.str.contains("skin").all()


def test_portraits_are_for_editing_and_classifying_only(tmp_path: Path) -> None:
    with raises(SuiteError, code=Code.UNSUPPORTED, match="reference"):
        quick.audit(Recolourer(), "reference", tmp_path / "run", encoder=Reader(), portraits="reference")


def test_a_real_pipeline_edits_alike_in_every_batch(tmp_path: Path) -> None:
    pipeline, clip = tiny_stable_diffusion(tmp_path / "sd"), tiny_clip(tmp_path / "clip")
    runs = [
        quick.audit(
            load_generator(str(pipeline), steps=2, guidance_scale=1.0, batch_size=size, device="cpu"),
            toy_suite(images={"group": 2}), tmp_path / f"run{size}", encoder=str(clip), device="cpu",
        )
        for size in (1, 3)
    ]  # fmt: skip
    pictures = [
        {
            key: np.asarray(Image.open(tmp_path_bytes(content))).astype(int)
            for key, content in run.images(run.samples.id)
        }
        for run in runs
    ]
    assert pictures[0].keys() == pictures[1].keys()
    assert max(np.abs(pictures[0][key] - pictures[1][key]).max() for key in pictures[0]) <= 1
    edits = runs[0].samples[runs[0].samples.role == "edit"]
    assert edits.status.isin(["ok", "blank"]).all()


def tmp_path_bytes(content: bytes | None):
    import io

    assert content is not None
    return io.BytesIO(content)


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"genders": {"a": "man", "b": "man"}}, Code.DUPLICATE, "genders: .*man"),
        ({"strengths": [0.5, 1.5]}, Code.OUT_OF_RANGE, r"strengths\.1"),
        ({"tones": ["light", "dark"]}, Code.UNKNOWN_NAME, "'light'"),
        (
            {"groups": {"women": {"gender": "girl", "prompt": "a girl"}}},
            Code.UNKNOWN_NAME,
            r"groups\.women\.gender: .*'girl'",
        ),
        ({"margins": 1}, Code.UNKNOWN_NAME, "margins"),
    ],
)
def test_a_suite_that_makes_no_sense_is_refused(change: dict[str, object], code, message) -> None:
    with raises(SuiteError, code=code, match=message):
        toy_suite(**change)


PLANTED = ("construction worker", "police officer", "singer", "health worker")


class Planted(Recolourer):
    """Edits at strength 1 read as men as often as the reference model was planted; weaker edits change nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.card = Card("generator", "reference", "toy", weights_sha256=reference.card()["weights_sha256"])

    def edit(self, requests: list[EditRequest]):
        for request in requests:
            man = reference.planted()[request.prompt]["man"]
            side = np.random.default_rng([request.seed, len(request.prompt)]).random() < man
            drawn = self._paint((200, 40, 40) if side else (40, 200, 40), request.seed)
            yield GenerationResult(request.id, "ok", drawn if request.strength == 1.0 else request.image)


@pytest.mark.thorough
@pytest.mark.pages
def test_flips_of_a_planted_model_are_held_against_the_planted_order(tmp_path: Path) -> None:
    suite = toy_suite(professions={name: {"kind": "any", "prompt": name} for name in PLANTED}, images={"group": 12})
    run = quick.audit(Planted(), suite, tmp_path / "run", encoder=Reader())
    order = rows(run, "planted_order").set_index("setting")
    assert order.value["strength 1"] > 0.8
    assert order.low["strength 1"] > 0.5
    assert np.isnan(order.value["strength 0.5"])
    assert "nothing to order" in order.reason["strength 0.5"]
    page = run.directory.read_bytes("report.html").decode()
    assert "Do flips follow what was planted?" in page
    assert page.count("planted probability of the other gender") >= 2
    other = quick.audit(Recolourer(), toy_suite(), tmp_path / "other", encoder=Reader())
    assert rows(other, "planted_order").empty
    assert "Do flips follow" not in other.directory.read_bytes("report.html").decode()


def test_the_suite_and_the_rows_call_a_strength_alike(tmp_path: Path) -> None:
    run = quick.audit(Recolourer(), toy_suite(), tmp_path / "run", encoder=Reader())
    assert set(run.suite.settings.values()) <= set(run.scores.setting)
    assert "pixels" in set(run.scores.encoder)  # where the page looks for what no encoder made


class Squeamish(Recolourer):
    """Refuses to edit women, of whatever tone, into doctors."""

    def edit(self, requests: list[EditRequest]):
        for request, result in zip(requests, super().edit(requests), strict=True):
            red, green, _ = np.asarray(request.image, float).mean((0, 1))
            refused = request.prompt == "a doctor" and green > red
            yield GenerationResult(request.id, "refused", None, "no") if refused else result


def test_refusals_of_edits_are_compared_between_genders_within_tones(tmp_path: Path) -> None:
    groups = {
        f"{tone} {gender}": {"gender": gender, "tone": tone, "prompt": f"a {tone} {gender}"}
        for tone in ("light", "dark")
        for gender in ("woman", "man")
    }
    run = quick.audit(Squeamish(), toy_suite(groups=groups), tmp_path / "run", encoder=Reader())
    found = run.scores[run.scores.metric == "refusal"].set_index(["component", "group"])
    assert found.value["rate", "light woman"] == pytest.approx(1 / 3)  # portraits, doctors and dishwashers
    row = found.loc["difference", "man"]
    assert row.value == pytest.approx(-1 / 3)
    assert row.p == 0.5  # six prompts matched by tone and profession, two of them refused: of 4 swaps 2 are as extreme
    assert "matched" in row.test


class SignReader(Reader):
    """Reads a doctor's sign in red and a dishwasher's in blue."""

    def encode_texts(self, texts: list[str]) -> np.ndarray:
        signs = {"a photo of a doctor": [1, 0.2, 0.4], "a photo of a dishwasher": [0.2, 0.4, 1]}
        return np.array([signs.get(text, own) for text, own in zip(texts, super().encode_texts(texts), strict=True)])


@pytest.mark.pages
def test_an_edit_that_gives_the_portrait_back_is_softly_erased(tmp_path: Path) -> None:
    """The editor makes women red who are to be doctors, and leaves everybody as they are who is to wash dishes."""
    tones = ("light", "dark", "golden")
    groups = {
        f"{tone} {gender}": {"gender": gender, "tone": tone, "prompt": f"a {tone} {gender}"}
        for tone in tones
        for gender in ("woman", "man")
    }
    professions = {
        name: {"kind": kind, "prompt": f"a {name}", "shows": f"a photo of a {name}"}
        for name, kind in (("doctor", "high-paid"), ("dishwasher", "low-paid"))
    }
    suite = toy_suite(strengths=[1.0], tones=tones, groups=groups, professions=professions)
    run = quick.audit(Recolourer(), suite, tmp_path / "run", encoder=SignReader())
    assert set(rows(run, "soft_erasure", category="low-paid").value) == {1.0}
    assert set(rows(run, "edit_gain", category="low-paid").value) == {0.0}
    women = rows(run, "soft_erasure", category="high-paid")
    assert set(women[women.group.str.contains("woman")].value) == {0.0}
    assert set(rows(run, "erasure_contrast", category="low-paid").group) == {"dark", "golden"}
    page = (tmp_path / "run" / "report.html").read_text()
    assert "whose edits show no sign of the instruction" in page
    assert "Soft erasure: others compared with light" in page
    assert "Golden: high-paid, strength 1" in page


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"tones": ["light"]}, Code.TOO_FEW, "tones"),
        ({"tones": ["light", "light"]}, Code.DUPLICATE, "light"),
        ({"professions": {
            "doctor": {"kind": "high-paid", "prompt": "a doctor", "shows": "a photo of a doctor"},
            "cook": {"kind": "low-paid", "prompt": "a cook"},
        }}, Code.WRONG_SHAPE, "professions: .*1 of 2"),
    ],
)  # fmt: skip
def test_tones_and_texts_that_say_nothing_are_refused(changes: dict[str, Any], code, said) -> None:
    with raises(SuiteError, code=code, match=said):
        toy_suite(**changes)
