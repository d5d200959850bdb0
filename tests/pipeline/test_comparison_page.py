"""The page of a comparison: the papers' two-model tables and figures say what the runs' own scores say."""

from __future__ import annotations

import dataclasses
import os
import shutil
from html import unescape

import numpy as np
import pytest

import clinometer as cm
from clinometer.errors import Code, InvalidInputError
from clinometer.models import GenerationResult
from clinometer.pipeline.comparison_page import (
    comparison_caution,
    comparison_html,
    comparison_tables,
    pairing_in_words,
    side_by_side,
    write_comparison,
)
from clinometer.report.differences import compared, run_names
from clinometer.studies.refusals.scoring import refusal_table
from clinometer.studies.reporting import report_input
from tests import quick
from tests.raising import raises
from tests.report.browsing import CLOSED, CONTRAST, CUT, DESK, PAPER, PHONE
from tests.report.page import Page
from tests.toy_denoisers import ClassifyingPainter, toy_classification
from tests.toy_editing import Reader, Recolourer
from tests.toy_editing import toy_suite as toy_editing_suite
from tests.toys import Eye, Painter, toy_suite, toy_t2iat_suite

SMALL = {"target": 2, "attribute": 2, "concepts": 4}
FEW = {"neutral": 4, "attribute": 3, "stimuli": 3}


class Squint(Eye):
    """Another eye: it sees strong colours stronger."""

    def encode_images(self, images):
        return super().encode_images(images) ** 2


@pytest.fixture(scope="module")
def leaning():
    return {
        name: quick.finished(Painter(name=name), toy_suite(**SMALL), encoder=Eye(), seed=seed)
        for seed, name in enumerate(("one <b>model</b>", "another"))
    }


@pytest.fixture(scope="module")
def leaning_html(leaning):
    return comparison_html(cm.compare(*leaning.values()))


@pytest.fixture(scope="module")
def leaning_page(leaning_html):
    return Page(leaning_html)


@pytest.fixture(scope="module")
def associations():
    suite = toy_t2iat_suite(**FEW)
    return {
        name: quick.finished(Painter(name=name), suite, encoder=encoders, seed=seed)
        for seed, (name, encoders) in enumerate(
            {
                "one": [Eye()],
                "another": [Eye()],
                "twice": [Eye(), Squint("second")],
                "other": [Squint("second")],
            }.items()
        )
    }


@pytest.fixture(scope="module")
def edits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("edits")
    suite = toy_editing_suite(images={"group": 3})
    return [quick.audit(Recolourer(), suite, folder / f"{seed}", encoder=Reader(), seed=seed) for seed in range(2)]


@pytest.fixture(scope="module")
def classified(tmp_path_factory):
    folder, suite = tmp_path_factory.mktemp("classified"), toy_classification(margin=0.3)
    return [quick.audit(ClassifyingPainter(), suite, folder / f"{seed}", seed=seed) for seed in range(2)]


def reports(runs):
    return {name: report_input(run) for name, run in runs.items()}


def value(run, metric, component, encoder="mean", **equal):
    rows = run.scores[(run.scores.metric == metric) & (run.scores.component == component)]
    rows = rows[rows.encoder == encoder]
    for name, wanted in equal.items():
        rows = rows[rows[name] == wanted]
    return rows.value.iloc[0]


def shown(number, digits=3, sign=True):
    return f"{number:{'+' if sign else ''}.{digits}f}".replace("-", "−")


def cells(page, caption):
    """The rows of the table with this caption, as texts."""
    (found,) = (element for element in page.find("caption") if caption in element.text)
    table = found.parent
    rows = [row for row in page.find("tr") if row.parent.parent is table and row.parent.tag == "tbody"]
    return [[cell.text for cell in page.elements if cell.parent is row] for row in rows]


# --- what was compared -------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_what_was_compared_has_a_column_a_run_and_marks_what_differs(leaning, leaning_page):
    runs, page = list(leaning.values()), leaning_page
    rows = {row[0]: row[1:] for row in cells(page, "Facts about each run")}
    assert rows["Model ≠"] == list(leaning)
    assert rows["Seed ≠"] == ["0", "1"]
    assert rows["Family"] == ["toy/painter"] * 2
    assert rows["Images"] == ["20 drawn, none refused or failed"] * 2
    assert rows["Encoders"] == ["eye"] * 2
    assert rows["Clinometer"] == [runs[0].record["versions"]["clinometer"]] * 2
    (same,) = page.find("p", class_="note same")
    assert "The same in all: images asked for: 2 per target, 2 per attribute prompt; origin: generated;" in same.text


def test_a_file_of_somebody_elses_is_not_replaced(tmp_path):
    for name in ("comparison.html", "comparison.csv"):
        (tmp_path / name).write_text("mine")
        with raises(InvalidInputError, code=Code.ALREADY_EXISTS, match=f"{name}: it is there"):
            write_comparison([], tmp_path)
        (tmp_path / name).unlink()


def test_a_setting_that_differs_or_that_one_run_lacks_is_a_row(tmp_path):
    runs = {}
    for name, settings in (("one", {"steps": 8, "size": 16}), ("two", {"steps": 9, "size": 16, "lora": "ab" * 32})):
        painter = Painter()
        painter.card = dataclasses.replace(painter.card, weights_sha256="cd" * 32, settings=settings)
        runs[name] = quick.audit(painter, toy_suite(**SMALL), tmp_path / name, encoder=Eye())
    found = compared(reports(runs))
    rows = {row["name"]: (row["cells"], row["differs"]) for row in found["rows"]}
    assert rows["Weights"] == (["cdcdcdcdcdcd…"] * 2, False)
    assert rows["steps"] == (["8", "9"], True)
    assert rows["lora"] == (["—", "abababababab…"], True)
    assert ("size", "16") in found["same"]
    assert "steps" not in dict(found["same"])


# --- leaning -----------------------------------------------------------------------------------------------------


def test_every_concept_of_every_model_is_in_figures_and_tables(leaning, leaning_page):
    page = leaning_page
    tips = [element.text for element in page.find("title")]
    table = cells(page, "MCAS, diffusion bias δ and bias amplification α")
    assert [row[0] for row in table] == [f"concept {lean}" for lean in ("0.20", "0.40", "0.60", "0.80")]
    for concept, *numbers in table:
        for (name, run), own in zip(leaning.items(), (numbers[:3], numbers[3:]), strict=True):
            assert own[0] == shown(value(run, "mcas", "mcas", concept=concept))
            assert own[1] == shown(value(run, "internal_bias", "diffusion_bias", concept=concept), sign=False)
            assert any(tip.startswith(f"{concept}, {name}: MCAS") for tip in tips)


def test_category_statistics_stand_model_below_model(leaning, leaning_page):
    table = cells(leaning_page, "the concept with the largest |MCAS|")
    assert [row[:2] for row in table] == [
        [label, name] for label in ("Low", "High", "All concepts") for name in leaning
    ]  # fmt: skip
    for row, run in zip(table[-2:], leaning.values(), strict=True):
        assert row[9] == shown(value(run, "category", "mean", category="all", group=""), 2)
        positive = run.scores.query("metric == 'category_by_sign' and category == 'all' and group == 'man'")
        mean = positive[(positive.component == "mean") & (positive.encoder == "mean")].iloc[0]
        assert row[2:4] == [f"{mean.n_target}", f"{shown(mean.value, 2)} null {shown(mean.null, 2)}"]
        own = run.scores[
            (run.scores.metric == "mcas") & (run.scores.component == "mcas") & (run.scores.encoder == "mean")
        ]
        most = own.loc[own.value.abs().idxmax()]
        assert row[11] == f"{most.concept} {shown(most.value, 2)}"


def test_inside_the_models_by_stereotype_group(leaning, leaning_page):
    page = leaning_page
    table = cells(page, "Smallest, largest and mean")
    assert {(row[0], row[1]) for row in table} == {
        (group, name) for group in ("All concepts", "Tied to man", "Tied to woman") for name in leaning
    }
    tips = [element.text for element in page.find("title")]
    for name, run in leaning.items():
        delta = value(run, "internal_bias", "diffusion_bias", concept="concept 0.20")
        assert any(tip.startswith(f"concept 0.20, {name}: δ {shown(delta, sign=False)}") for tip in tips)
        (row,) = (row for row in table if row[:2] == ["All concepts", name])
        mean = value(run, "internal_bias_summary", "diffusion_bias_mean", group="")
        assert row[3].startswith(shown(mean, sign=False))


@pytest.mark.thorough
def test_the_margin_is_in_the_key_of_figures_that_draw_it(leaning, associations, monkeypatch):
    monkeypatch.setattr(
        "clinometer.pipeline.comparison_page.side_by_side", lambda *of: side_by_side(*of) | {"margin": 0.1}
    )  # as a suite would have it
    for runs, drawn in (
        (list(leaning.values()), [True, False, False]),
        ([associations[name] for name in ("one", "another")], [False, True]),
    ):
        keys = Page(comparison_html(cm.compare(*runs))).find("ul", class_="key")
        assert ["counts as no leaning" in key.text for key in keys] == drawn


def test_the_plane_has_each_groups_place_in_each_model(leaning, leaning_page):
    page = leaning_page
    tips = " ".join(element.text for element in page.find("title"))
    for name, run in leaning.items():
        for group in ("man", "woman", "other"):
            place = value(run, "xmcas_group", "similarity", group=group, concept="")
            assert f"{group}, {name}: similarity {shown(place, sign=False)}" in tips
    table = cells(page, "angle θ")
    assert table[0][3] == shown(
        value(leaning["one <b>model</b>"], "xmcas", "distance", concept="concept 0.20"), sign=False
    )


def test_a_suite_without_a_third_group_has_no_plane(tmp_path):
    suite = toy_suite(target=2, attribute=2, concepts=2, axis={"a": "man", "b": "woman"})
    runs = [quick.audit(Painter(name=name), suite, tmp_path / name, encoder=Eye()) for name in ("one", "two")]
    page = Page(comparison_html(cm.compare(*runs)))
    assert not [element for element in page.elements if element.attributes.get("id") == "plane"]
    assert "Plane" not in [link.text for link in page.find("a")]


def test_every_group_of_every_editor_is_in_tables_and_pictures(edits):
    shown = side_by_side(reports(dict(zip("ab", edits, strict=True))), ["reader"])
    assert len(shown["edits"]) == 2 * 2 * 2  # groups, classes, strengths
    flips = {(row["name"], row["concept"]): [cells[0] for cells in row["cells"]] for row in shown["edits"]}
    assert flips["Women, into “high-paid”", "strength 1"] == ["100\u202f%", "100\u202f%"]
    assert flips["Men, into “low-paid”", "strength 0.5"] == ["0\u202f%", "0\u202f%"]
    assert [(row["label"], row["model"]) for row in shown["faces"]] == [
        ("women", "a"), ("women", "b"), ("men", "a"), ("men", "b")
    ]  # fmt: skip
    assert shown["asymmetry"].svg.count("flip asymmetry +") >= 2
    page = comparison_html(cm.compare(*edits))
    beside = [row["tiles"] for entry in shown["pictures"] for row in entry["rows"]]
    assert [len(tiles) for tiles in beside] == [8] * 2 * 2  # of each group, of each run
    assert page.count('<img class="tile"') == 4 * (1 + 4) + 4 * 8


def test_every_contrast_of_every_classifier_is_in_figure_and_tables(classified):
    shown = side_by_side(reports(dict(zip("ab", classified, strict=True))), [])
    assert [row["name"] for row in shown["contrasts"]] == [
        "Gender: men minus women",
        "Age: young people minus old people",
    ]
    gender = [run.scores.query("component == 'differential' and group == 'gender' and setting == '20 noise samples'")
              .value.iloc[0] for run in classified]  # fmt: skip
    assert [cells[0].split()[0] for cells in shown["contrasts"][0]["cells"]] == [f"+{each:.2f}" for each in gender]
    assert [row["name"] for row in shown["groups"]] == ["Young men", "Young women", "Old men", "Old women"]
    assert shown["differentials"].svg.count("<title>") >= 4


def test_names_are_text(leaning_html):
    assert "<b>" not in leaning_html
    assert "one <b>model</b>" in unescape(leaning_html)


# --- T2IAT -------------------------------------------------------------------------------------------------------


def test_tests_and_prompts_of_every_model(associations):
    runs = {name: associations[name] for name in ("one", "another")}
    page = Page(comparison_html(cm.compare(*runs.values())))
    (test,) = cells(page, "Differential association S, its p and Cohen’s d")
    assert test[0] == "Reds, against green"
    for run, own in zip(runs.values(), (test[1:4], test[4:]), strict=True):
        assert own[0] == shown(value(run, "t2iat", "differential_association"))
        assert own[2] == shown(value(run, "t2iat", "effect_size"), 2)
    stimuli = cells(page, "Asc over images")
    assert len(stimuli) == 6
    for row in stimuli:
        for run, own in zip(runs.values(), (row[2:6], row[6:]), strict=True):
            assert own[0] == shown(value(run, "association", "mean", concept=row[0]))
            assert own[2] == shown(value(run, "association", "median", concept=row[0]))
    tips = " ".join(element.text for element in page.find("title"))
    assert all(f"{row[0]}, {name}: median" in tips for row in stimuli for name in runs)


def test_runs_with_other_encoders_are_shown_as_the_one_that_saw_both(associations):
    runs = {name: associations[name] for name in ("one", "twice")}
    shared = side_by_side(reports(runs), ["eye"])
    assert shared["encoder"] == "eye"
    wanted = value(runs["twice"], "t2iat", "differential_association", encoder="eye")
    assert wanted != value(runs["twice"], "t2iat", "differential_association")
    assert shared["tests"][0]["cells"][1][0] == shown(wanted)
    html = comparison_html(cm.compare(*runs.values()))
    assert "As <bdi>eye</bdi> reads them" in html


def test_nothing_stands_side_by_side_that_no_encoder_has_seen(associations):
    runs = [associations[name] for name in ("twice", "one", "other")]
    page = Page(comparison_html(cm.compare(*runs)))
    assert any("No encoder has seen all of the runs" in element.text for element in page.find("p"))
    assert len([table for table in page.find("table") if table.attributes.get("class") == "differences"]) == 4


def test_models_of_one_name_go_by_their_directories(associations):
    one, another = associations["one"], associations["another"]
    assert run_names([one, another]) == ["one", "another"]
    assert run_names([one, cm.open_run(one.url)]) == [one.url, f"{one.url} (2)"]


def test_a_copy_of_a_run_differs_by_nothing_and_goes_by_its_directory(associations, tmp_path):
    one = associations["one"]
    shutil.copytree(one.url, tmp_path / "copy")
    (found,) = cm.compare(one, tmp_path / "copy")
    assert run_names([found.first, found.second]) == [os.path.basename(one.url), "copy"]
    assert (found.scores.value == 0).all()
    assert not found.scores.verdict.isin(["more", "alike"]).any()
    assert "nothing differs, because both have the same images" in comparison_html([found])


@pytest.mark.parametrize(
    ("study", "signs"),
    [
        ("leaning", ["further to man than one <b>model</b>."]),
        (
            "associations",
            [
                "the first concept, compared with the other, is nearer to red than in one.",
                "the prompt leans more to red than in one.",
            ],
        ),
        ("edits", ["edits move more to man than in 0.", "skin is lightened more than in 0."]),
        ("classified", ["the first side goes more often to a profession red than in 0."]),
    ],
)
def test_the_sign_of_every_kind_of_difference_is_told(request, study, signs):
    runs = request.getfixturevalue(study)
    first, second = list(runs.values())[:2] if isinstance(runs, dict) else runs
    (found,) = cm.compare(first, second)
    notes = [table.note for table in comparison_tables(found)]
    assert [note.split(" ", 1)[1][: len(sign)] for note, sign in zip(notes, signs, strict=True)] == signs
    assert all(note.startswith("Positive: ") for note in notes)


def test_a_contrast_is_named_with_its_sides_where_its_difference_stands(classified):
    (found,) = cm.compare(*classified)
    assert comparison_tables(found)[0].rows[0][0] == "Gender: men minus women"
    assert comparison_tables(found, short=True)[0].rows[0][0] == "gender"


def test_a_difference_has_no_more_decimals_than_its_interval_has_use_for(edits):
    (found,) = cm.compare(*edits)
    for small in (0.0, 0.001):
        rows = found.scores.assign(value=small, low=-0.4677, high=0.4677)
        flips = comparison_tables(dataclasses.replace(found, scores=rows))[0]
        assert {row[1:3] for row in flips.rows} == {("0.00", "[−0.47, 0.47]")}


def test_a_difference_that_is_undefined_says_why(associations):
    (found,) = cm.compare(associations["one"], associations["another"])
    rows = found.scores.copy()
    rows.loc[rows.component == "magnitude", ["value", "reason"]] = [float("nan"), "no test is measured in both runs"]
    html = comparison_html([dataclasses.replace(found, scores=rows)])
    assert "another compared with one: no test is measured in both runs." in html


# --- pictures, and whether they show what was asked -----------------------------------------------------------------


def test_pictures_of_one_noise_stand_in_one_column(leaning, tmp_path):
    """Of each run a row; a picture has the prompt, the run and the noise of its neighbours."""
    first = next(iter(leaning.values()))
    again = quick.audit(Painter(name="again"), toy_suite(**SMALL), tmp_path / "again", encoder=Eye(), seed=0)
    (found,) = cm.compare(first, again)
    entries = side_by_side(reports({"first": first, "again": again}), ["eye"], ["concept 0.80"])["pictures"]
    assert [entry["name"] for entry in entries][:1] == ["concept 0.80"]
    assert len(entries) == 4
    seeds = {sample.id: sample.seed for sample in first.plan if sample.concept == "concept 0.80"}
    assert all(entry["same_noise"] and len(row["tiles"]) == len(seeds) for entry in entries for row in entry["rows"])
    page = Page(comparison_html([found]))
    alts = [e.attributes["alt"] for e in page.elements if e.tag == "img" and e.inside("table")]
    assert len(alts) == 4 * 2 * SMALL["target"]
    section = next(e for e in page.elements if e.attributes.get("id") == "pictures")
    assert "no noise in common" not in section.text


def test_pictures_of_other_seeds_are_said_to_share_no_noise(leaning, leaning_html):
    entries = side_by_side(reports(leaning), ["eye"])["pictures"]
    assert not any(entry["same_noise"] for entry in entries)
    assert "no noise in common" in leaning_html


@pytest.mark.parametrize(
    ("own", "ends", "said"),
    [
        (
            (0.9, 0.2),
            (-0.8, -0.6),
            "The pictures of another show less of what was asked. Of 4 concepts, 3 are no",
        ),
        pytest.param(
            (0.2, 0.9),
            (0.6, 0.8),
            "The pictures of one <b>model</b> show less of what was asked. A difference",
            marks=pytest.mark.thorough,
        ),
        ((0.5, 0.4), (-0.3, 0.1), ""),
    ],
)
def test_a_fall_of_fidelity_is_said_first(leaning, own, ends, said):
    (found,) = cm.compare(*leaning.values())
    rows = found.scores.copy()
    assert set(rows.component) >= {"fidelity", "own_fidelity", "own_unshown"}
    of = rows.component == "fidelity"
    rows.loc[of, ["value", "low", "high"]] = [own[1] - own[0], *ends]
    for run, share, unshown in zip(("first run", "second run"), own, (0.0, 0.75), strict=True):
        rows.loc[(rows.component == "own_fidelity") & (rows.setting == run), "value"] = share
        rows.loc[(rows.component == "own_unshown") & (rows.setting == run), "value"] = unshown
    found = dataclasses.replace(found, scores=rows)
    head, _, body = unescape(comparison_html([found])).partition("<main>")
    assert comparison_caution(found)[0].startswith(said)
    assert ("show less of what was asked" in head) == bool(said)
    if said:
        assert said in head
    numbers = f"Pictures nearest to their own prompt: {own[0]:.0%} in".replace("%", "\N{NARROW NO-BREAK SPACE}%")
    assert numbers in body


# --- in a browser ------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("study", ["leaning", "associations", "edits", "classified"])
def test_in_a_browser_nothing_overflows_and_every_text_can_be_read(request, browser, tmp_path, study):
    runs = request.getfixturevalue(study)
    if isinstance(runs, dict):
        runs = [run for name, run in runs.items() if name != "other"]  # no encoder has seen that and the first
    cm.compare(*runs, out=tmp_path)
    complaints = []
    for scheme, viewport in (("light", DESK), ("dark", PHONE)):
        context = browser.new_context(color_scheme=scheme, viewport=viewport, offline=True)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.goto((tmp_path / "comparison.html").as_uri())
        page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
        widths = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert widths[0] <= widths[1]
        assert page.evaluate(CONTRAST) == []
        tops = page.evaluate("[...document.querySelectorAll('.contents a')].map((a) => a.getBoundingClientRect().top)")
        assert len(set(tops)) == 1 < len(tops) <= 8
        context.close()
    paper = browser.new_page(viewport=PAPER)
    paper.goto((tmp_path / "comparison.html").as_uri())
    paper.emulate_media(media="print")
    assert paper.evaluate(CUT) == []
    assert paper.evaluate(CLOSED) == []
    paper.close()
    assert complaints == []


# --- refusals ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def refusing(tmp_path_factory):
    """One refuses young women, the other most concepts; the first two share their noise."""
    folder = tmp_path_factory.mktemp("refusing")
    suite = toy_suite(target=6, attribute=3, concepts=4)
    return [
        quick.audit(Painter(name=name, refuse=refuse), suite, folder / f"{number}", encoder=Eye(), seed=seed)
        for number, (name, refuse, seed) in enumerate(
            (("open", "", 0), ("<i>prude</i>", "lean", 0), ("old", "young women", 5))
        )
    ]


@pytest.mark.thorough
def test_the_page_says_who_refuses_more_and_what_that_means(refusing, tmp_path):
    cm.compare(*refusing, out=tmp_path)
    text = (tmp_path / "comparison.html").read_text()
    assert "<i>prude" not in text
    page = unescape(text)
    for words in (
        "Refusals of <i>prude</i> minus refusals of open",
        "Refusals: <i>prude</i> refuses more of these prompts; "
        "whether it does of other prompts like these is undecided.",
        "<i>prude</i> refuses more of: concept 0.20, concept 0.40, concept 0.60 and concept 0.80.",
        "they are about what both runs drew",
        "Left out of both for want of images in one of the runs: “young women” of woman.",
        "Differences of leaning are about what each run drew; a verdict that the missing pictures may change says so.",
    ):
        assert words in page, words


class RedFilter(Painter):
    """Refuses what of a concept came out redder than most."""

    def generate(self, requests):
        for request in requests:
            (result,) = super().generate([request])
            too_red = "lean" in request.prompt and np.asarray(result.image)[..., 0].mean() > 255 * 0.62
            yield GenerationResult(request.id, "refused", None, "too red") if too_red else result


class Cache(Painter):
    """Answers every second request for a concept with one picture a prompt."""

    def generate(self, requests):
        for request in requests:
            fixed = "lean" in request.prompt and request.seed % 2
            (result,) = super().generate([dataclasses.replace(request, seed=7) if fixed else request])
            yield result


@pytest.mark.thorough
def test_pictures_that_repeat_are_named_beside_a_difference(tmp_path):
    runs = [
        quick.audit(model, toy_suite(target=20, attribute=8), tmp_path / model.card.name, encoder=Eye())
        for model in (Painter(name="fresh"), Cache(name="cached"))
    ]
    (found,) = cm.compare(*runs, out=tmp_path / "out")
    said = pairing_in_words(found)
    assert " cached: " in said
    assert "duplicate pictures, counted once" in said
    assert said.endswith("A pair counts only if neither picture repeats another of its run.")
    assert said in unescape((tmp_path / "out/comparison.html").read_text())
    rows = found.scores[(found.scores.component == "image_part") & (found.scores.encoder == "mean")]
    assert "repeats as drawn" in comparison_tables(found)[0].columns
    assert (rows.n_repeated > 0).all()
    assert (rows.n_target + rows.n_repeated == 20).all()
    assert (rows.bound_low <= rows.low).all()


class ManFilter(Painter):
    """Refuses the reddest pictures of men."""

    def generate(self, requests):
        for request in requests:
            (result,) = super().generate([request])
            shut = " men" in request.prompt and np.asarray(result.image)[..., 0].mean() > 255 * 0.9
            yield GenerationResult(request.id, "refused", None, "too red") if shut else result


@pytest.mark.thorough
def test_missing_pictures_of_a_group_are_told_in_a_run_and_between_two(tmp_path):
    runs = [
        quick.audit(model, toy_suite(target=20, attribute=8), tmp_path / model.card.name, encoder=Eye(), report=drawn)
        for model, drawn in ((Painter(name="open"), False), (ManFilter(name="shut"), True))
    ]
    lost = (runs[1].samples.status != "ok").sum()
    assert lost > 0
    mean = [run.scores[(run.scores.metric == "mcas") & (run.scores.encoder == "mean")] for run in runs]
    rows = [scores[scores.component == "image_part"] for scores in mean]
    assert not rows[0].n_missing_attributes.any()
    assert (rows[1].n_missing_attributes == lost).all()
    assert (rows[1].bound_low < rows[1].low).all()
    page = unescape((tmp_path / "shut/report.html").read_text()).replace("\N{NO-BREAK SPACE}", " ")
    assert f"with the groups' {lost} missing pictures filled in either way" in page
    paired = cm.compare(runs[0], runs[1], out=tmp_path / "out")[0].scores
    paired = paired[(paired.component == "image_part") & (paired.encoder == "mean")]
    assert (paired.n_missing_attributes == lost).all()
    assert (paired.bound_low < paired.low).all()


@pytest.mark.thorough
def test_a_verdict_that_missing_pictures_might_change_says_so_on_the_page(tmp_path):
    suite = toy_suite(target=60, attribute=6)
    runs = [
        quick.audit(model, suite, tmp_path / model.card.name, encoder=Eye(), seed=seed)
        for seed, model in enumerate((Painter(name="open"), RedFilter(name="shut")))
    ]
    (found,) = cm.compare(*runs, out=tmp_path / "out")
    page = unescape((tmp_path / "out/comparison.html").read_text())
    over_all = found.scores[found.scores.component == "magnitude"].iloc[0]
    assert (over_all.depends_on, over_all.n_missing) == ("missing", (runs[1].samples.status != "ok").sum())
    for words in (
        "shut compared with open: open leans more, if the missing pictures are like the rest.",
        f"with its {over_all.n_missing} missing",
        "pictures filled in either way the interval is",
        "a verdict that the missing pictures may change says so.",
        "Missing filled in: the 95",
    ):
        assert words in page.replace("\N{NO-BREAK SPACE}", " "), words
    assert "missing filled in" in comparison_tables(found)[0].columns
    assert "missing filled in" not in comparison_tables(found, short=True)[0].columns


def test_a_row_of_refusals_has_both_rates_and_the_judged_interval(refusing):
    (found,) = cm.compare(*refusing[:2])
    table = refusal_table(found, ("one", "two"))
    assert table.columns == ("concept or group", "one", "two", "difference", "95 %", "q", "verdict")
    cells = {row[0]: row for row in table.rows}
    assert cells["concept 0.20"][1:4] == ("0\N{NARROW NO-BREAK SPACE}%", "100\N{NARROW NO-BREAK SPACE}%", "+1.00")
    assert cells["all prompts"][-1] == "two refuses more of these prompts"
    assert refusal_table(cm.compare(refusing[0], refusing[2])[0], ("one", "two")).rows[1][0] == "man minus woman"
