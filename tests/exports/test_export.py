"""What of a run goes into a paper: every figure, table, method and reference, and nothing that is not so."""

import dataclasses
import functools
import re
import shutil
import zlib

import pandas as pd
import pytest

import clinometer as cm
from clinometer.errors import Code, InvalidInputError, RunError
from clinometer.exports.latex import latex
from clinometer.exports.paper import metric_latex
from clinometer.report.figures import Ink
from clinometer.studies import reporting
from tests import quick
from tests.latex import CLASSES, complaints
from tests.quick import thorough_but
from tests.raising import raises
from tests.toy_denoisers import ClassifyingPainter, toy_classification
from tests.toy_editing import Reader, Recolourer
from tests.toy_editing import toy_suite as toy_editing
from tests.toys import Eye, Painter, crossed_suite, toy_suite, toy_t2iat_suite

AUDITS = {
    "leaning": (Painter(refuse="0.20"), toy_suite(), Eye()),
    "axes": (Painter(), crossed_suite(), Eye()),
    "t2iat": (Painter(), toy_t2iat_suite(), Eye()),
    "editing": (Recolourer(), toy_editing(), Reader()),
    "classification": (ClassifyingPainter(), toy_classification(), ()),
}


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """Return a function that exports a run of the table above once, whichever tests parametrize it themselves."""

    @functools.cache
    def exported(name):
        model, suite, encoder = AUDITS[name]
        run, folder = quick.finished(model, suite, encoder=encoder), tmp_path_factory.mktemp(name) / "paper"
        return run, folder, cm.export(run, folder, board=None)

    return exported


@pytest.fixture(scope="module", params=thorough_but(AUDITS, "axes", "t2iat"))
def exported(request, exports):
    return exports(request.param)


@pytest.mark.thorough
def test_every_file_that_is_named_is_there(exported):
    _run, folder, names = exported
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*")) == sorted(names)


@pytest.mark.parametrize("exported", thorough_but(AUDITS, "axes"), indirect=True)
def test_the_same_run_gives_the_same_bytes(exported, tmp_path):
    run, folder, names = exported
    assert cm.export(run.url, tmp_path, board=None) == names
    assert {name: (tmp_path / name).read_bytes() for name in names} == {
        name: (folder / name).read_bytes() for name in names
    }


def test_each_figure_of_the_report_is_there_in_colours_of_its_own(exported):
    _run, folder, names = exported
    inks = [value for name, value in vars(Ink).items() if not name.startswith("_")]
    for path in (folder / name for name in names if name.endswith(".svg")):
        text = path.read_text("utf-8")
        used = set(re.findall(r'class="([^"]*)"', text))
        styled = set(re.findall(r"\.([a-z0-9-]+)\{", text))
        assert {name for each in used for name in each.split()} - {"mark"} <= styled
        assert not any(ink in text for ink in inks)
        assert "var(" not in text
    for path in (folder / name for name in names if name.endswith(".pdf")):
        content = path.read_bytes()
        streams = [zlib.decompress(each) for each in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", content, re.DOTALL)]
        drawn = b"".join(each for each in streams if b" re" in each or b" l\n" in each or b" rg" in each)
        assert content.startswith(b"%PDF")
        assert not re.search(rb"(?<![\d.])0\.0039", drawn)  # 1/255, of which the sentinel colours are made


def test_tables_hold_the_numbers_of_the_run(exported):
    run, folder, _ = exported
    for metric, rows in run.scores.groupby("metric"):
        table = pd.read_csv(folder / "tables" / f"{metric}.csv")
        assert table["value"].to_numpy() == pytest.approx(rows["value"].to_numpy(float), nan_ok=True)
        written = (folder / "tables" / f"{metric}.tex").read_text("utf-8")
        assert written.count("{") == written.count("}")
        assert written.count(r"\\") > 1
        assert all(name in written for name in set(rows.concept) if name.isalnum())
    verdicts = pd.read_csv(folder / "tables" / "verdicts.csv")
    assert len(verdicts)
    assert verdicts["Verdict"].notna().all()


def test_methods_say_what_was_done_and_cite_what_is_listed(exported):
    run, folder, _ = exported
    said, listed = (folder / "methods.md").read_text("utf-8"), (folder / "references.bib").read_text("utf-8")
    assert f"{int((run.samples.status == 'ok').sum())} images were drawn by {run.model_card['name']}" in said
    assert all(card["name"] in said for card in run.encoder_cards.values())
    assert run.record["suite_fingerprint"] in said
    assert run.record["versions"]["clinometer"] in said
    cited = set(re.findall(r"@(\w+)", said))
    assert cited == set(re.findall(r"^@\w+\{(\w+),", listed, re.MULTILINE)) > {"clinometer", "benjamini1995"}
    assert (
        set(",".join(re.findall(r"\\cite\{([^}]*)\}", (folder / "methods.tex").read_text("utf-8"))).split(",")) == cited
    )
    assert "<b>" not in said or "<b>" in run.model_card["name"]
    assert "None" not in said
    assert "  " not in said


@pytest.mark.parametrize("exported", ["leaning"], indirect=True)
def test_missing_images_are_told(exported):
    run, folder, _ = exported
    said = (folder / "methods.md").read_text("utf-8")
    assert f"{int((run.samples.status == 'refused').sum())} images are missing: refused." in said


def test_what_latex_reads_otherwise_is_written_so_that_it_does_not():
    table = pd.DataFrame({"a & b": ["50 % of {x_1}", "−0.3 ≤ α"]})
    written = latex(table, caption="R&D", label="tab:x")
    for text in (r"a \& b", r"50 \% of \{x\_1\}", r"$-$0.3 $\leq$ $\alpha$", r"\caption{R\&D}", r"\toprule"):
        assert text in written
    long = latex(pd.DataFrame({"a": range(100)}), caption="Numbers. More.", label="tab:long")
    assert long.count(r"\begin{table}") == long.count(r"\toprule") > 1
    assert "Numbers (part 2 of " in long
    assert re.findall(r"^(\d+)", long, re.MULTILINE) == [str(number) for number in range(100)]


EVIL = (
    r"x}\input{/etc/passwd}\label{y", "../../outside", "a\x00b", "=HYPERLINK(1)", "[0pt] *row", "<img src=x>[a](http://b)",
    "@cmd|' /C calc'!A0", "# heading | cell\n\n- list", "__init__ **bold** `code` $x$ [@evil2020]",
    "../../outside ",
)  # fmt: skip


@pytest.fixture(scope="module")
def forged(tmp_path_factory):
    """A whole run whose names of metrics, concepts, components and encoders are somebody else's."""
    place = tmp_path_factory.mktemp("forged") / "run"
    shutil.copytree(quick.finished(*AUDITS["leaning"][:2], encoder=Eye()).url, place)
    run = cm.open_run(place)
    scores = run.scores
    for at, text in enumerate(EVIL):
        rows = scores.index[at * 7 : at * 7 + 7]
        for column in ("metric", "component", "concept", "test", "reason"):
            scores.loc[rows, column] = text
    curves = run.curves
    with run.directory.locked():
        run.write_scores(scores, curves)
    return cm.open_run(place)


@pytest.mark.thorough
def test_names_of_a_forged_run_are_text_in_every_file(forged, tmp_path):
    place = tmp_path / "a/b/paper"
    place.parent.mkdir(parents=True)
    names = cm.export(forged, place, board=None)
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) and ".." not in name for name in names)
    assert sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()) == sorted(
        f"a/b/paper/{name}" for name in names
    )
    for file in place.rglob("*.tex"):
        written = file.read_text("utf-8")
        assert not re.search(r"(?<!\\textbackslash\{\})\\(input|write|include|def)\b", written)
        assert not re.search(r"\\\\\s*[\[*]|rule\s*[\[*]", written)
        assert "\0" not in written
        assert all(re.fullmatch(r"[\w:-]+", label) for label in re.findall(r"\\label\{(.*)\}", written))
    for file in place.rglob("*.csv"):
        cells = pd.read_csv(file, dtype=str).to_numpy().ravel()
        formulas = [cell for cell in cells if isinstance(cell, str) and re.match(r"[=+@]|-(?![\d.])", cell)]
        assert formulas == []


@pytest.mark.thorough
def test_methods_escape_what_a_run_names(forged, tmp_path, monkeypatch):
    text = EVIL[5] + EVIL[7] + EVIL[8]
    card = forged.model_card | {"name": text, "family": text, "settings": {text: text}}
    given = reporting.report_input

    def changed(run):
        return dataclasses.replace(given(run), model_card=card)

    monkeypatch.setattr(reporting, "report_input", changed)
    cm.export(forged, tmp_path, board=None)
    said = (tmp_path / "methods.md").read_text("utf-8")
    assert "<img" not in said
    assert "\n#" not in said
    assert not re.search(r"(?<!\\)\]\(http", said)
    assert "**bold**" not in said
    assert "&lt;img src=x&gt;" in said
    tex = (tmp_path / "methods.tex").read_text("utf-8")
    assert "evil2020" not in "".join(re.findall(r"\\cite\{[^}]*\}", tex))
    assert "[@evil2020]" in tex


def test_a_row_cannot_begin_with_an_option_of_the_line_before():
    written = latex(pd.DataFrame({"[1cm]": ["[2cm] x", "*"], "b": ["[0.1]", "y"]}), caption="a]\nb", label="tab:a}b")
    assert not re.search(r"\\\\\s*[\[*]|rule\s*[\[*]", written)
    assert r"\label{tab:a-b}" in written
    assert latex(pd.DataFrame({"a\n": [1], "a": [2]}), caption="", label="x").count("&") == 2


def test_one_table_by_its_metric(exported):
    run, folder, _ = exported
    metric = run.scores.metric[0]
    assert run.to_latex(metric) == (folder / "tables" / f"{metric}.tex").read_text("utf-8")
    with raises(
        InvalidInputError,
        code=Code.UNKNOWN_NAME,
        field="metric",
        match=r"metric: expected .*" + metric + ".*found .mcos.",
    ):
        metric_latex(run.scores, "mcos")


def test_a_folder_that_is_the_run_or_a_run_without_scores_is_refused(exported, tmp_path):
    run, _, _ = exported
    with raises(InvalidInputError, code=Code.CONFLICT, match="the run itself"):
        cm.export(run, run.url)
    with raises(RunError, code=Code.NOT_FOUND):
        cm.export(tmp_path, tmp_path / "paper")


@pytest.mark.thorough
@pytest.mark.parametrize("exported", ["axes"], indirect=True)
def test_nobody_else_s_file_is_written_over(exported, tmp_path):
    run, folder, _ = exported
    shutil.copy(folder / "references.bib", tmp_path)  # an export may be written again
    (tmp_path / "methods.md").write_text("# Our methods\n")
    with raises(InvalidInputError, code=Code.ALREADY_EXISTS):
        cm.export(run, tmp_path, board=None)
    (tmp_path / "README.md").write_text("# Our repository\n")
    for write in (lambda: cm.export(run, tmp_path, dataset=True), lambda: cm.write_benchmark(run.suite, tmp_path)):
        with raises(InvalidInputError, code=Code.ALREADY_EXISTS):
            write()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "methods.md", "references.bib"]


@pytest.mark.thorough
@pytest.mark.parametrize("style", CLASSES)
def test_every_table_and_figure_fits_an_article(exported, style, tmp_path):
    _run, folder, names = exported
    files = [folder / name for name in names if name.endswith(".tex") and name != "methods.tex"]
    assert folder / "figures.tex" in files
    assert complaints(style, files, tmp_path) == []


def test_dir_shows_what_there_is():
    assert {"audit", "export", "open_run", "metrics", "__version__"} <= set(dir(cm))
    assert all(hasattr(cm, name) for name in dir(cm))


def test_counts_without_images_have_tables_and_a_method_of_their_own(tmp_path):
    (tmp_path / "counts.csv").write_text("concept,group,n\ndoctor,man,74\ndoctor,woman,26\n")
    run = cm.import_counts(tmp_path / "counts.csv", tmp_path / "run")
    assert "tables/share.tex" in cm.export(run, tmp_path / "paper", board=None)
    said = (tmp_path / "paper" / "methods.md").read_text("utf-8")
    assert "No image was seen." in said
    assert "images were drawn" not in said
