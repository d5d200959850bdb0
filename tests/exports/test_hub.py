"""Data sets for the Hub, read by those who read such, and what is sent there: to a hub of this machine's own."""

import io
import json
import shutil
import socket

import pyarrow.parquet as pq
import pytest
import yaml
from huggingface_hub import DatasetCard, ModelCard
from matplotlib import get_cachedir
from PIL import Image

import clinometer as cm
from clinometer.api import push, write_benchmark
from clinometer.errors import Code, InvalidInputError, RunCorruptError, RunError, RunNotFoundError, SuiteError
from clinometer.exports.formats import tasks_of
from clinometer.report.model_card import BEGIN
from clinometer.runs import Directory
from clinometer.suites import load_suite
from tests import quick
from tests.exports.hub_server import TOKEN, hub_server
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite


@pytest.fixture(scope="module")
def run():
    return quick.finished(Painter(refuse="0.20"), toy_suite(target=12), encoder=Eye())


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dataset")
    return folder, cm.export(run, folder, dataset=True, license="cc0-1.0")


@pytest.fixture
def hub(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with hub_server() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        yield served


def test_croissant_reads_every_image_and_finds_nothing_to_mend(run, exported):
    import mlcroissant

    folder, _ = exported
    described = mlcroissant.Dataset(jsonld=str(folder / "croissant.json"))
    issues = described.metadata.ctx.issues
    assert (issues.errors, issues.warnings) == (set(), set())
    assert described.metadata.conforms_to[0] == "http://mlcommons.org/croissant/1.1"
    told = described.metadata
    assert told.data_collection_missing_data == "12 refused"
    assert cm.model_card(run).count(told.data_biases[0].split(";")[0])
    assert told.data_limitations
    assert told.personal_sensitive_information[0] == "Groups that prompts name: man, woman and other."
    assert any("eye (toy/eye, " in tool for tool in told.machine_annotation_tools)
    samples = run.samples.set_index("id")
    images = dict(run.images(list(samples.index)))
    rows = list(described.records("images"))
    assert {row["images/id"].decode() for row in rows} == set(samples.index)
    for row in rows:
        sample, content = samples.loc[row["images/id"].decode()], images[row["images/id"].decode()]
        assert (row["images/prompt"].decode(), row["images/seed"]) == (sample.prompt, sample.seed)
        assert (row["images/image"] is None) is (content is None) is (sample.status == "refused")
        if content:
            assert row["images/image"].tobytes() == Image.open(io.BytesIO(content)).tobytes()


def test_a_changed_part_is_not_the_one_that_croissant_names(exported, tmp_path):
    folder, _ = exported
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy" / "scores.parquet").write_bytes(b"PAR1")
    said = json.loads((folder / "croissant.json").read_text())
    hashes = {each["@id"]: each["sha256"] for each in said["distribution"] if "sha256" in each}
    for name, checksum in hashes.items():
        same = Directory(tmp_path / "copy").sha256(name) == checksum
        assert same is (name != "scores.parquet")


def test_the_hubs_own_library_reads_the_data_set_and_its_card(run, exported, tmp_path):
    import datasets

    folder, names = exported
    read = datasets.load_dataset(str(folder), cache_dir=str(tmp_path))["test"]
    assert len(read) == len(run.samples)
    assert read[len(read) - 1]["image"].size == (8, 8)
    card = DatasetCard.load(folder / "README.md")
    assert card.data.license == "cc0-1.0"
    assert "78 images" not in card.text
    assert "66 images: drawn by painter" in card.text
    assert BEGIN not in card.text
    assert "## Bias audit" in card.text
    assert {"croissant.json", "scores.parquet", "run.json"} <= set(names)


@pytest.mark.parametrize(
    "name", ["mcas", "reference-intersections", "t2iat/science-arts", "t2iat/occupations", "downstream/portrait-edits"]
)
def test_a_benchmark_is_made_of_each_suite_whose_tasks_are_known(name, tmp_path):
    suite = load_suite(name)
    if suite.study != "leaning" and not getattr(suite, "tests", ()):
        with raises(SuiteError, code=Code.UNSUPPORTED, match="judges follows from a run"):
            write_benchmark(name, tmp_path)
        return
    assert write_benchmark(name, tmp_path) == ["README.md", "eval.yaml", "test.jsonl", "suite.yaml"]
    said = yaml.safe_load((tmp_path / "eval.yaml").read_text("utf-8"))
    assert set(said) == {"name", "description", "evaluation_framework", "tasks"}
    ids = [task["id"] for task in said["tasks"]]
    assert ids == tasks_of(suite)
    assert len(ids) == len(set(ids)) > 0
    assert all(set(task) == {"id", "config", "split"} for task in said["tasks"])
    assert load_suite(tmp_path / "suite.yaml").fingerprint == suite.fingerprint
    rows = [json.loads(line) for line in (tmp_path / "test.jsonl").read_text("utf-8").splitlines()]
    assert [(row["prompt"], row["images"]) for row in rows] == [(q.prompt, q.images) for q in suite.prompt_specs()]
    (config,) = DatasetCard.load(tmp_path / "README.md").data.configs
    assert config["data_files"] == [{"split": "test", "path": "test.jsonl"}]


def test_images_are_sent_as_they_are_to_a_data_set_that_is_private(run, hub, exported):
    sent = push(run, "hf://datasets/me/audit", license="cc0-1.0")
    asked = hub.created["me/audit"]
    assert (asked["type"], asked.get("visibility") or asked["private"]) in (("dataset", "private"), ("dataset", True))
    assert sent.url.endswith("/commit/0123456789abcdef0123456789abcdef01234567")
    folder, names = exported
    assert {name for _, name in hub.files} == set(names) == set(sent.files)
    for (_, name), content in hub.files.items():
        assert content == (folder / name).read_bytes()
        assert len(content) == sent.files[name]
    assert {authorization for _, _, authorization in hub.asked} == {f"Bearer {TOKEN}"}


def test_a_dry_run_asks_nothing_and_lists_what_would_be_sent(run, hub, exported):
    sent = push(run, "hf://datasets/me/audit", license="cc0-1.0", dry_run=True)
    folder, names = exported
    assert sent.files == {name: (folder / name).stat().st_size for name in names}
    assert (hub.asked, sent.url) == ([], "")


def test_results_go_into_the_card_that_a_model_has_and_into_a_file_of_their_own(run, hub):
    hub.created["me/model"] = {}
    hub.files["me/model", "README.md"] = b"---\nlicense: mit # mine\n---\n# Mine\n"
    sent = push(run, "hf://me/model", benchmark="me/colours", source="https://example.org/run", pull_request=True)
    assert sent.url.endswith("/me/model/discussions/1")
    card = hub.files["me/model", "README.md"].decode()
    assert card.startswith("---\nlicense: mit # mine\n---\n# Mine\n\n<!--")
    assert ModelCard(card).data.eval_results is None
    entries = yaml.safe_load(hub.files["me/model", ".eval_results/clinometer-toy.yaml"])
    assert {entry["dataset"]["id"] for entry in entries} == {"me/colours"}
    push(run, "hf://models/me/model")
    assert ModelCard(hub.files["me/model", "README.md"].decode()).data.eval_results


def test_the_hubs_refusal_is_a_line_without_the_token(run, hub):
    hub.refuse = 403
    with raises(RunError, code=Code.REFUSED) as raised:
        push(run, "hf://datasets/me/audit")
    assert TOKEN not in str(raised.value)
    with raises(RunError, code=Code.REFUSED, match=r"hf://me/nothing: .*\(RepositoryNotFoundError\)"):
        push(run, "hf://me/nothing")


def test_a_run_that_is_damaged_or_not_whole_is_not_sent(run, hub, tmp_path):
    for name, words in (
        ("scores.parquet", "it is not what was written"),
        ("samples/part-00000.parquet", "cannot be read"),
    ):
        shutil.copytree(run.url, tmp_path / name.partition("/")[0])
        path = tmp_path / name.partition("/")[0] / name
        content = bytearray(path.read_bytes())
        content[len(content) // 3] ^= 255
        path.write_bytes(bytes(content))
        for target in ("hf://datasets/me/audit", "hf://me/model"):
            with raises(RunCorruptError, code=Code.CORRUPT, match=f"it is not what was written|{words}"):
                push(tmp_path / name.partition("/")[0], target, dry_run=True)
    assert hub.asked == []


@pytest.mark.parametrize(
    ("target", "given", "code", "field", "words"),
    [
        ("me/audit", {}, Code.MALFORMED, "target", "found 'me/audit'"),
        ("hf://spaces/me/audit", {}, Code.MALFORMED, "target", "found"),
        ("hf://datasets/me/audit", {"benchmark": "a/b"}, Code.UNSUPPORTED, "benchmark", "a model's repository"),
        ("hf://me/model", {"license": "mit"}, Code.UNSUPPORTED, "license", "a data set"),
        ("hf://me/model", {"public": True}, Code.UNSUPPORTED, "public", "a data set"),
        ("hf://me/model", {"benchmark": "colours"}, Code.MALFORMED, "benchmark", "found 'colours'"),
    ],
)
def test_what_does_not_go_together_is_refused(run, target, given, code, field, words):
    with raises(InvalidInputError, code=code, field=field, match=words):
        push(run, target, dry_run=True, **given)


def test_counts_have_no_images_to_publish(tmp_path):
    (tmp_path / "counts.csv").write_text("concept,group,n\ndoctor,man,74\ndoctor,woman,26\n")
    counted = cm.import_counts(tmp_path / "counts.csv", tmp_path / "run")
    with raises(RunNotFoundError, code=Code.UNSUPPORTED):
        cm.export(counted, tmp_path / "out", dataset=True)


@pytest.mark.usefixtures("shortcuts")
@pytest.mark.thorough
def test_nothing_of_a_run_names_a_host_a_user_or_a_home(tmp_path, monkeypatch):
    home = tmp_path / "zebrahome"
    home.mkdir()
    strange = {"HOME": str(home), "USER": "okapiuser", "LOGNAME": "okapiuser", "MPLCONFIGDIR": get_cachedir()}
    for name, value in strange.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(socket, "gethostname", lambda: "quaggahost")
    monkeypatch.setattr("platform.node", lambda: "quaggahost")
    (home / "suite.yaml").write_text(yaml.safe_dump(toy_suite(target=12, concepts=2).model_dump(mode="json")))
    painter = Painter(refuse="0.20", name=f"{home}/painter")
    painted = painter.generate

    def generate(requests):
        for result in painted(requests):
            yield result if result.image else type(result)(result.id, "failed", None, f"no file {home}/cache/x")

    painter.generate = generate
    run = cm.audit(painter, home / "suite.yaml", home / "run", encoder=Eye(), resamples=999, report=True)
    cm.export(run, home / "paper")
    cm.export(run, home / "evidence", evidence=True)
    cm.export(run, home / "data", dataset=True)
    cm.model_card(run, out=home / "README.md")
    for form in ("every-eval-ever", "fairness"):
        scope = {"in_scope": "a", "out_of_scope": "b"} if form == "fairness" else {}
        cm.model_card(run, out=home / form, format=form, **scope)
    assert run.model_card["name"] == "~/painter"
    assert set(run.samples[run.samples.status == "failed"].reason) == {"no file ~/cache/x"}
    texts = {path: path.read_bytes() for path in home.rglob("*") if path.is_file() and path.name != "suite.yaml"}
    assert len(texts) > 60
    for path, content in texts.items():
        told = content + (str(pq.read_table(path).to_pylist()).encode() if path.suffix == ".parquet" else b"")
        for name in (b"zebrahome", b"okapiuser", b"quaggahost"):
            assert name not in told, path


def test_a_home_that_an_earlier_version_recorded_is_not_sent(run, hub, monkeypatch):
    monkeypatch.setenv("HOME", "toy/painter")
    with raises(RunCorruptError, code=Code.UNTRUSTED, match="home directory"):
        push(run, "hf://datasets/me/audit")
    assert hub.asked == []
