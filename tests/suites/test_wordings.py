"""Several wordings of a concept, the language of a suite, and lists of other audits as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from clinometer.errors import Code, SuiteError
from clinometer.runs.plan import build_plan
from clinometer.suites import LeaningSuite, load_suite, suite_from_mapping
from tests.raising import raises
from tests.toys import SCENARIOS

FAIRPRO = (
    "occupation,label,simple_prompt,prompt_with_context\n"
    "a juggler,age,an old juggler,an old juggler is waiting for a bus\n"
    "an acrobat,gender,a male acrobat,a male acrobat is reading\n"
)
MAGBIG = "name,prompt\njuggler,Ein Foto vom Gesicht eines Jongleurs.\nacrobat,Ein Foto vom Gesicht eines Akrobaten.\n"
INDIRECT = "name,prompt\njuggler,Ein Foto einer Person, die jongliert.\nacrobat,Ein Foto einer Person, die turnt.\n"


def worded(**changes: object) -> dict:
    asked = load_suite("mcas").model_dump()
    jobs = [
        {"name": name, "wordings": {"plain": f"a {name}", "photo": f"a photo of a {name}"}}
        for name in ("cook", "judge")
    ]
    one = {"name": "nurse", "prompt": "a nurse"}
    return {
        "name": "worded", "title": "t", "description": "d", "groups": asked["groups"], "axis": asked["axis"],
        "categories": {"jobs": {"targets": [*jobs, one]}}, **changes,
    }  # fmt: skip


def leaning(data: dict) -> LeaningSuite:
    suite = suite_from_mapping(data, source="file.yaml")
    assert isinstance(suite, LeaningSuite)
    return suite


def test_a_language_is_a_tag() -> None:
    with raises(SuiteError, code=Code.MALFORMED):
        leaning(worded(language="in German"))


def test_each_wording_is_a_target_and_all_start_from_the_same_noises() -> None:
    suite = leaning(worded())
    names = ["cook (plain)", "cook (photo)", "judge (plain)", "judge (photo)", "nurse"]
    assert [target.name for target in suite.targets] == names
    assert suite.wordings["cook"] == {"plain": "cook (plain)", "photo": "cook (photo)"}
    seeds: dict[str, list[int]] = {}
    plan = build_plan(suite.prompt_specs(), seed=3, model_fingerprint="m", part_size=64)
    for sample in plan:
        seeds.setdefault(sample.concept, []).append(sample.seed)
    assert seeds["cook (plain)"] == seeds["cook (photo)"] != seeds["judge (plain)"]
    assert len({sample.id for sample in plan}) == len(plan)
    plain = leaning(worded(categories={"jobs": {"targets": [{"name": "cook", "prompt": "a cook"}]}}))
    alone = build_plan(plain.prompt_specs(), seed=3, model_fingerprint="m", part_size=64)
    assert [sample.seed for sample in alone if sample.concept == "cook"] == seeds["cook (plain)"]


def test_a_suite_is_read_back_and_keeps_its_fingerprint() -> None:
    suite = leaning(worded(language="de-AT"))
    again = leaning(suite.model_dump())
    assert (again, again.fingerprint, again.language) == (suite, suite.fingerprint, "de-AT")
    assert suite.fingerprint == leaning(worded()).fingerprint  # it says what is asked, and asks nothing
    assert "language" not in load_suite("mcas").model_dump()
    assert [
        t["name"]
        for t in leaning(worded()).with_options(concepts=["cook"]).model_dump()["categories"]["jobs"]["targets"]
    ] == ["cook"]


@pytest.mark.parametrize(
    ("targets", "code", "message"),
    [
        ([{"name": "x", "wordings": {"one": "a"}}], Code.TOO_FEW, "wordings"),
        ([{"name": "x", "wordings": {"one": "a", "two": "a"}}], Code.DUPLICATE, "x: .*: a"),
        ([{"name": "x", "prompt": "b", "wordings": {"one": "a", "two": "c"}}], Code.CONFLICT, "prompt"),
        (
            [
                {"name": "x", "wordings": {"one": "a", "two": "c"}},
                {"name": "y", "wordings": {"one": "d", "three": "e"}},
            ],
            Code.MISMATCH,
            "y has .*one, three, .*x .*one, two",
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_line(targets: list, code, message) -> None:
    with raises(SuiteError, code=code, match=message) as caught:
        leaning(worded(categories={"c": {"targets": targets}}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["occupations", "low-context"])
def test_the_suites_of_wordings_name_no_group(name: str) -> None:
    suite = load_suite(name)
    assert isinstance(suite, LeaningSuite)
    assert suite.language == "en"
    words = {word for group in suite.groups.values() for word in group.words}
    for target in suite.targets:
        assert not words & set(target.prompt.lower().split())
    assert len(suite.wordings) * len(next(iter(suite.wordings.values()))) == len(suite.targets)


def test_fairpros_list_loads_with_its_rewritten_prompts_where_they_lie_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "fairpro_prompts.csv"
    file.write_text(FAIRPRO)
    alone = load_suite(file)
    assert [target.prompt for target in alone.targets] == ["a juggler", "an acrobat"]
    (tmp_path / "prompts_occupations_rewrite.txt").write_text("A juggler in a park.\nAn acrobat on a rope.\n\n")
    both = load_suite(file)
    assert both.wordings["acrobat"] == {"occupation": "acrobat (occupation)", "rewritten": "acrobat (rewritten)"}
    assert not any("male" in target.prompt or "old" in target.prompt for target in both.targets)
    (tmp_path / "prompts_occupations_rewrite.txt").write_text("A juggler in a park.\n")
    with raises(SuiteError, code=Code.WRONG_SHAPE, match="found 1 .*of the 2 in fairpro_prompts"):
        load_suite(file)


def test_magbigs_lists_load_in_their_language_with_the_indirect_ones_beside_them(tmp_path: Path) -> None:
    file = tmp_path / "occ_german.csv"
    file.write_text("\N{ZERO WIDTH NO-BREAK SPACE}" + MAGBIG)
    alone = load_suite(file)
    assert (alone.language, [target.name for target in alone.targets]) == ("de", ["juggler", "acrobat"])
    (tmp_path / "indirect:gender_neutral").mkdir()
    (tmp_path / "indirect:gender_neutral" / "occ_german.csv").write_text(INDIRECT.replace("Person,", "Person"))
    assert list(load_suite(file).wordings["juggler"]) == ["direct", "indirect"]


@pytest.mark.parametrize(
    ("column", "of"), [("occupation", "BAFIS'"), ("id", "MAGBIG's on the Hub"), ("prompt", "older")]
)
def test_parallel_prompts_are_wordings_named_by_their_language(tmp_path: Path, column: str, of: str) -> None:
    file = tmp_path / "direct.csv"
    file.write_text(
        f"{column},en,de,zh\njuggler,A juggler.,Ein Jongleur.,杂耍者\n"
        "porter,A porter.,Ein Hausmeister.,门房\njanitor,A janitor.,Ein Hausmeister.,看门人\n"
    )
    suite = load_suite(file)
    assert isinstance(suite, LeaningSuite)
    assert (suite.language, suite.languages) == ("mul", ["en", "de", "zh"])
    assert suite.wordings["juggler"] == {tag: f"juggler ({tag})" for tag in ("en", "de", "zh")}
    plan = build_plan(suite.prompt_specs(), seed=0, model_fingerprint="m", part_size=64)
    seeds: dict[str, list[int]] = {}
    for sample in plan:
        seeds.setdefault(sample.concept, []).append(sample.seed)
    for concept, by_language in suite.wordings.items():  # also of two concepts that one language calls the same
        assert len({tuple(seeds[target]) for target in by_language.values()}) == 1, concept
    german = suite.with_options(wording="de", ablate=True)
    assert (german.languages, german.targets[0].prompt) == (["de"], "Ein Jongleur.")
    assert [each.word for each in german.ablations["juggler"]] == ["Ein", "Jongleur"]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("title,en,de\na,b,c\n", Code.MISSING, "title, en, de; .*occupation"),
        ("id,en,German\na,b,c\n", Code.UNKNOWN_NAME, "'German' .*en"),
        ("id,en,de\na,b,\n", Code.MISSING, "line 2: de"),
        ("id,en,de\na,b,b\n", Code.DUPLICATE, "a: .*: b"),
    ],
)
def test_parallel_prompts_that_are_none_are_refused_in_a_line(tmp_path: Path, text: str, code, message) -> None:
    file = tmp_path / "direct.csv"
    file.write_text(text)
    with raises(SuiteError, code=code, match=message):
        load_suite(file)


def test_a_suite_in_several_languages_names_its_wordings_by_them() -> None:
    with raises(SuiteError, code=Code.MALFORMED, match="'mul' .*plain"):
        leaning(worded(language="mul"))


@pytest.mark.parametrize(
    ("name", "text", "code", "message"),
    [
        ("occ_klingon.csv", MAGBIG, Code.UNKNOWN_NAME, "occ_klingon"),
        ("occ_german.csv", "title,prompt\na,b\n", Code.MISSING, "line 1: .*title, prompt"),
        ("occ_german.csv", "", Code.MISSING, "line 1: .*none"),
        ("occ_german.csv", "name,prompt\na,\n", Code.MISSING, "line 2: prompt"),
        ("occ_german.csv", "name,prompt\na,b\na,c\n", Code.DUPLICATE, "line 3: name: 'a'"),
        ("occ_german.csv", 'name,prompt\na,"b\n', Code.MALFORMED, "after line 1"),
    ],
)
def test_a_list_that_is_none_is_refused_in_a_line(tmp_path: Path, name: str, text: str, code, message) -> None:
    file = tmp_path / name
    file.write_text(text)
    with raises(SuiteError, code=code, match=message) as caught:
        load_suite(file)
    assert "\n" not in str(caught.value)


def test_fairbenchs_scenarios_are_concepts_and_their_genders_the_groups_prompts(tmp_path: Path) -> None:
    file = tmp_path / "kick.yaml"
    file.write_text(SCENARIOS)
    suite = load_suite(file)
    assert isinstance(suite, LeaningSuite)
    assert [(target.name, target.prompt) for target in suite.targets] == [("player", "A player"), ("coach", "A coach")]
    drawn = {name: [each.prompt for each in group.prompts] for name, group in suite.groups.items()}
    assert drawn == {"man": ["A male player"], "woman": ["A female player"]}
    mcas = load_suite("mcas")
    assert isinstance(mcas, LeaningSuite)
    assert suite.groups["man"].words == mcas.groups["man"].words
    file.write_text("scenarios:\n  - {id: a, prompt: A coach}\n")
    plain = load_suite(file)
    assert isinstance(plain, LeaningSuite)
    assert plain.groups == {name: group for name, group in mcas.groups.items()}


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("scenarios: []", Code.TOO_FEW, "scenarios: "),
        ("scenarios: [a]", Code.WRONG_TYPE, r"scenarios\.0: "),
        ("scenarios: [{id: a}]", Code.WRONG_TYPE, r"scenarios\.0: prompt: "),
        ("scenarios: [{id: a, prompt: b, counterfactuals: [c]}]", Code.WRONG_TYPE, r"counterfactuals\.0: "),
        (
            "scenarios: [{id: a, prompt: b, counterfactuals: [{attribute: gender, variants: [{value: male}]}]}]",
            Code.WRONG_TYPE,
            r"variants\.0: prompt: ",
        ),
    ],
)
def test_scenarios_that_lack_something_say_where(tmp_path: Path, text: str, code: Code, place: str) -> None:
    file = tmp_path / "kick.yaml"
    file.write_text(text)
    with raises(SuiteError, code=code, match=rf"kick\.yaml: .*{place}"):
        load_suite(file)
