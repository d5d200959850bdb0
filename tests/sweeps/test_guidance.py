"""What a sweep tells of guidance: the split, where it comes from, and what to do where there is none."""

from __future__ import annotations

import dataclasses
import json

import diffusers
import numpy as np
import pandas as pd
import pytest

from clinometer.cli.documents import document_of, json_schema
from clinometer.pipeline.comparison import split_runs
from clinometer.sweeps.page import split_tables, write_page
from tests import quick
from tests.builders import tiny_stable_diffusion
from tests.sweeps.toy_sweeps import Shifted
from tests.toys import Eye, toy_suite

SUITES = {"toy": toy_suite(target=12, attribute=4)}


class Settable(Shifted):
    """The painter, at a guidance that is set on what is loaded."""

    drawn_at: list[float] = []  # noqa: RUF012

    def with_settings(self, guidance_scale=2.0, **others):
        return Settable(guidance_scale, name=self.card.name)

    def generate(self, requests):
        Settable.drawn_at.append(self.guidance)
        if self.guidance == 0.5:
            raise RuntimeError("no such kernel")
        yield from super().generate(requests)


@pytest.fixture(autouse=True, scope="module")
def loaded():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "clinometer.pipeline.recipes.load_generator",
            lambda spec, guidance_scale=2.0, **options: Settable(guidance_scale, name=spec),
        )
        patch.setattr(
            "clinometer.sweeps.sweep.write_page", lambda *written: write_page(*written) if quick.draws_pages() else None
        )
        yield


def swept(out, guidance, seeds=(0, 1)):
    axes = {"model": "painter", "suite": "toy", "seed": list(seeds), "guidance": guidance}
    return quick.sweep({"axes": axes, "report": False}, out, suites=SUITES, encoder=Eye())  # only its own page is read


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("guidance")


@pytest.fixture(scope="module")
def whole(folder):
    """Guidance 1 is not the baseline."""
    return swept(folder / "whole", [4, 2, 1])


@pytest.mark.thorough
def test_each_guidance_is_split_whatever_the_baseline_is(whole):
    table = whole.split
    added = table[table.component == "added"]
    assert added.groupby("guidance").size().to_dict() == {2: 4, 4: 4}
    assert set(table.guidance_of_first) == {1.0}
    assert (table.guidance == table.guidance_of_second).all()
    for _, own in table.groupby("guidance"):
        values = own.pivot_table(index="concept", columns="component", values="value").dropna()
        np.testing.assert_allclose(values.learned + values.added, values.leaning, atol=1e-12)
    assert not whole.split_lacks


def test_what_guidance_adds_is_one_family_over_the_grid(whole):
    (first, *_), *_ = ([split.scores for split in whole.outcome.splits],)
    added = pd.concat([split.scores[split.scores.component == "added"] for split in whole.outcome.splits])
    assert set(added.family) == {"split: added over 8 differences of the grid"}
    assert set(first[first.component == "learned"].family) == {"split: learned over 4 targets"}
    m, ranked = len(added), added.sort_values("p")
    assert ranked.q.iloc[-1] == pytest.approx(ranked.p.iloc[-1])
    assert ranked.q.iloc[0] <= ranked.p.iloc[0] * m + 1e-15


@pytest.mark.thorough
def test_a_split_of_one_seed_is_that_of_its_two_runs(whole, tmp_path):
    runs = whole.runs
    names = [f"painter-toy-guidance-{guidance}-seed-0" for guidance in (1, 4)]
    expected = split_runs(*(runs[name] for name in names)).set_index(["component", "concept", "setting"]).value
    one = quick.sweep(
        {"axes": {"model": "painter", "suite": "toy", "guidance": [1, 4]}}, tmp_path / "one", suites=SUITES,
        encoder=Eye(),
    )  # fmt: skip
    found = one.split.set_index(["component", "concept", "setting"]).value
    pd.testing.assert_series_equal(found.sort_index(), expected.sort_index())


@pytest.mark.parametrize(
    ("sides", "verdict", "said", "counted"),
    [
        (("woman", "woman", "woman"), "more", "leans to woman; guidance adds to it", "adds to the leaning of 4."),
        (("woman", "man", ""), "more", "leans to woman; guidance reduces it", "reduces the leaning of 4."),
        (("woman", "man", "man"), "more", "leans to woman; guidance turns it to man", "turns the leaning of 4 to"),
        (("", "man", "man"), "more", "undecided; guidance moves it towards man", "moves 4 not shown to lean"),
        (("woman", "", "woman"), "alike", "leans to woman; guidance leaves it unchanged within the margin",
         "leaves 4 unchanged within the margin"),
        (("woman", "", "woman"), "undecided", "leans to woman; what guidance adds cannot be told",
         "cannot be told for any"),
    ],
)  # fmt: skip
def test_each_pair_of_verdicts_has_its_words(whole, sides, verdict, said, counted):
    split = whole.outcome.splits[0]
    scores = split.scores.assign(depends_on="", reason="")
    for component, side in zip(("learned", "added", "leaning"), sides, strict=True):
        own = verdict if component == "added" else "leans" if side else "undecided"
        scores.loc[scores.component == component, ["side", "verdict"]] = side, own
    outcome = dataclasses.replace(whole.outcome, splits=(dataclasses.replace(split, scores=scores),))
    (told,) = split_tables(outcome, "toy")
    assert {row[1] for row in told["tables"][0]["rows"]} == {said}
    assert counted in told["said"]


@pytest.mark.thorough
def test_the_table_and_the_document_hold_the_split(whole, folder):
    stored = pd.read_csv(folder / "whole" / "split.csv")
    assert len(stored) == len(whole.split)
    document = json.loads(document_of(whole).as_json())
    import jsonschema  # it takes a second, which each process of the tests would wait

    jsonschema.validate(document, json_schema())
    assert len(document["split"]) == len(whole.split)
    assert document["split_lacks"] == {}
    first = document["split"][0]
    assert (first["component"], first["guidance_of_first"]) == ("learned", 1.0)


@pytest.mark.thorough
@pytest.mark.pages
def test_the_page_tells_the_split_and_a_curve_of_each_concept(folder):
    Settable.drawn_at.clear()
    swept(folder / "whole", [4, 2, 1])
    assert not Settable.drawn_at
    page = (folder / "whole" / "sweep.html").read_text()
    assert "What guidance adds" in page
    assert "Guidance 4" in page
    assert "guidance adds to it" in page
    assert "mean distance between two images of a concept" in page
    assert page.count('class="plots small"') == 1
    assert page.count("concept-") >= 4


@pytest.mark.thorough
@pytest.mark.pages
def test_without_guidance_1_the_page_says_how_to_get_it_and_only_that_is_drawn(tmp_path):
    found = swept(tmp_path / "sweep", [2, 4], seeds=[0])
    assert found.split.empty
    (lacks,) = found.split_lacks.values()
    assert "--guidance 1,2,4" in lacks
    assert "[1, 2, 4]" in lacks
    page = (tmp_path / "sweep" / "sweep.html").read_text()
    assert lacks in page
    assert not (tmp_path / "sweep" / "split.csv").exists()
    Settable.drawn_at.clear()
    grown = swept(tmp_path / "sweep", [2, 4, 1], seeds=[0])
    assert set(Settable.drawn_at) == {1}
    assert set(grown.split.guidance) == {2, 4}


def test_without_guidance_above_1_there_is_nothing_to_add(tmp_path):
    (lacks,) = swept(tmp_path / "sweep", [0, 1], seeds=[0]).split_lacks.values()
    assert "how it leans is what the network learned" in lacks


def test_a_cell_that_failed_is_named(tmp_path):
    found = swept(tmp_path / "sweep", [0.5, 2], seeds=[0])
    assert found.failed
    (reason,) = set(found.split.reason)
    assert "no such kernel" in reason
    assert "no such kernel" in (tmp_path / "sweep" / "split.csv").read_text()


@pytest.mark.thorough
def test_images_drawn_until_decided_are_not_split(tmp_path):
    axes = {"model": "painter", "suite": "toy", "guidance": [1, 4]}
    found = quick.sweep({"axes": axes, "until": "decided", "images": 12}, tmp_path / "s", suites=SUITES, encoder=Eye())
    (reason,) = set(found.split.reason)
    assert "drawn until decided" in reason


@pytest.mark.thorough
def test_scheduler_lora_weight_and_guidance_reach_the_pipeline(tmp_path, monkeypatch):
    """A tiny Stable Diffusion: at guidance 1 or less the network sees no unconditional prompt."""
    peft = pytest.importorskip("peft")
    from clinometer.models import load_generator

    monkeypatch.setattr("clinometer.pipeline.recipes.load_generator", load_generator)
    model = tiny_stable_diffusion(tmp_path / "tiny")
    pipeline = diffusers.StableDiffusionPipeline.from_pretrained(model)
    pipeline.unet.add_adapter(peft.LoraConfig(r=2, target_modules=["to_k", "to_v"], init_lora_weights=False))
    pipeline.save_lora_weights(tmp_path / "lora", unet_lora_layers=peft.get_peft_model_state_dict(pipeline.unet))
    prompts, network = [], diffusers.UNet2DConditionModel
    forward = network.forward

    def watched(self, sample, timestep, encoder_hidden_states, *rest, **named):
        prompts.append(len({each.numpy().tobytes() for each in encoder_hidden_states}))
        return forward(self, sample, timestep, encoder_hidden_states, *rest, **named)

    monkeypatch.setattr(network, "forward", watched)
    suites = {"toy": toy_suite(target=2, attribute=1, concepts=2)}

    def drawn(**axes):
        """The images of each cell, and how many prompts the network saw at once."""
        prompts.clear()
        found = quick.sweep(
            {"axes": {"model": str(model), "suite": "toy", "steps": 2, **axes}, "options": {"batch_size": 1}},
            tmp_path / f"sweep-{len(axes)}-{next(iter(axes))}", suites=suites, encoder=Eye(),
        )  # fmt: skip
        assert not found.failed
        hashes = [tuple(found.runs[cell.name].samples.sha256) for cell in found.cells]
        cards = [found.runs[cell.name].model_card["settings"] for cell in found.cells]
        return hashes, cards, found

    (zero, one, three), cards, _ = drawn(guidance=[0, 1, 3])
    assert zero == one != three
    assert [card["guidance_scale"] for card in cards] == [0, 1, 3]
    per_cell = len(prompts) // 3
    assert set(prompts[: 2 * per_cell]) == {1}
    assert set(prompts[2 * per_cell :]) == {2}
    hashes, cards, _ = drawn(scheduler=["none", "EulerDiscreteScheduler"])
    assert hashes[0] != hashes[1]
    assert [card["scheduler"]["class"] for card in cards] == ["DDIMScheduler", "EulerDiscreteScheduler"]
    monkeypatch.setattr("clinometer.sweeps.sweep.write_page", write_page)
    hashes, cards, found = drawn(lora=["none", str(tmp_path / "lora")], lora_scale=[0.5, 1.0])
    assert len(set(hashes)) == 3
    assert [(card.get("lora") or {}).get("scale") for card in cards] == [None, 0.5, 1.0]
    assert "no LoRA" in found.directory.read_bytes("sweep.html").decode()  # where the line of its weights begins
