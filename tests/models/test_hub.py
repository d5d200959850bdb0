"""Models by their hub ids, downloaded over HTTP from a server that speaks the hub's protocol, each in a fresh process.

A process of its own, because the hub's client reads its address and cache from the environment when it is imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.builders import tiny_clip, tiny_stable_diffusion
from tests.models.hub_server import HubServer, Repository
from tests.toys import toy_suite

COMMIT, OLD = "c0ffee" + "0" * 34, "0ddba11" + "0" * 33
TOKEN = "hf_a_secret_that_no_file_may_hold"

LOADED = """
import json, sys
from clinometer.errors import ModelError
from clinometer.models import load_encoder, load_generator
for spec in sys.argv[1:]:
    kind, _, name = spec.partition("=")
    name, _, variant = name.partition("?")
    options = {"offline": True} if variant == "offline" else {"variant": variant} if variant else {}
    try:
        model = (load_encoder if kind == "encoder" else load_generator)(name, device="cpu", **options)
    except ModelError as error:
        print(json.dumps([spec, type(error).__name__, str(error)]))
    else:
        print(json.dumps([spec, model.card.name, model.card.revision]))
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    pipeline, clip = tiny_stable_diffusion(folder / "pipeline"), tiny_clip(folder / "clip")
    older = tiny_stable_diffusion(folder / "older", seed=1)
    pickled = tiny_stable_diffusion(folder / "pickled", safe_serialization=False)
    with HubServer(
        {
            "maker/pipeline": Repository(pipeline, COMMIT, names=("main",)),
            "maker/older": Repository(older, OLD, names=("main", "v1.0")),
            "maker/clip": Repository(clip, COMMIT),
            "maker/pickled": Repository(pickled, COMMIT),
            "maker/gated": Repository(pipeline, COMMIT, gated=True, token=TOKEN),
            "maker/broken": Repository(pipeline, COMMIT, broken=1),
        }
    ) as server:
        yield server


def run(hub: HubServer, home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    return subprocess.run(
        [sys.executable, *arguments],
        env=kept | {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1"} | environment,
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip


def loaded(hub: HubServer, home: Path, *specs: str, **environment: str) -> dict[str, tuple[str, str]]:
    """What loading each spec gave: name and commit, or the kind of error and its message."""
    done = run(hub, home, "-c", LOADED, *specs, **environment)
    assert done.returncode == 0, done.stderr
    return {spec: (first, second) for spec, first, second in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def outcomes(hub, tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    specs = ["maker/pipeline", "maker/older@v1.0", "maker/pipeline@v9", "maker/nothing", "maker/pickled", "maker/gated",
             "maker/broken", "maker/pipeline?fp16", "maker/pipeline?offline", "maker/absent?offline"]  # fmt: skip
    return loaded(hub, home, *(f"generator={spec}" for spec in specs), "encoder=maker/clip"), home


@pytest.mark.thorough
def test_the_card_records_the_commit_and_not_the_tag(outcomes):
    found, _ = outcomes
    assert found["generator=maker/pipeline"] == ("maker/pipeline", COMMIT)
    assert found["generator=maker/older@v1.0"] == ("maker/older", OLD)
    assert found["encoder=maker/clip"] == ("maker/clip", COMMIT)


@pytest.mark.thorough
def test_what_is_not_there_is_not_found(outcomes):
    found, _ = outcomes
    for spec in ("maker/pipeline@v9", "maker/nothing"):
        kind, message = found[f"generator={spec}"]
        assert kind == "ModelNotFoundError"
        assert message.startswith(f"{spec}: the hub has no such model or revision, or it is private")


@pytest.mark.thorough
def test_gated_weights_say_the_way_in(outcomes):
    kind, message = outcomes[0]["generator=maker/gated"]
    assert (kind, message.split(":")[0]) == ("ModelError", "maker/gated")
    assert "accept the terms on its page, then `hf auth login`" in message


@pytest.mark.thorough
def test_pickles_are_refused_and_never_fetched(outcomes, hub):
    kind, message = outcomes[0]["generator=maker/pickled"]
    assert (kind, "only pickled weights" in message) == ("ModelError", True)
    assert not [name for name in hub.downloaded("maker/pickled") if name.endswith(".bin")]


@pytest.mark.thorough
def test_a_download_that_breaks_off_goes_on_where_it_was(outcomes, hub):
    assert hub.repositories["maker/broken"].broken == 0
    assert outcomes[0]["generator=maker/broken"] == ("maker/broken", COMMIT)


@pytest.mark.thorough
def test_offline_what_was_downloaded_is_opened_and_nothing_else(outcomes, hub):
    found, _ = outcomes
    assert found["generator=maker/pipeline?offline"] == ("maker/pipeline", COMMIT)
    kind, message = found["generator=maker/absent?offline"]
    assert kind == "ModelError"
    assert "not in the local cache and cannot be downloaded" in message
    assert not any("maker/absent" in str(asked) for asked in hub.asked)


@pytest.fixture(scope="module")
def offline(outcomes, hub):
    """What is loaded without the hub, once some was downloaded; and how often the hub was asked nevertheless."""
    before = len(hub.asked)
    specs = ("generator=maker/pipeline", "generator=maker/absent", "encoder=RN50/openai")
    return loaded(hub, outcomes[1], *specs, HF_HUB_OFFLINE="1"), len(hub.asked) - before


@pytest.mark.thorough
def test_what_was_downloaded_needs_no_hub(offline):
    found, asked = offline
    assert found["generator=maker/pipeline"] == ("maker/pipeline", COMMIT)
    kind, message = found["generator=maker/absent"]
    assert kind == "ModelError"
    assert "not in the local cache and cannot be downloaded" in message
    assert asked == 0


@pytest.mark.thorough
def test_a_tower_of_open_clip_that_was_never_downloaded_is_missing_and_not_pickled(offline):
    """The address that was not reached ends in .safetensors, which was taken for a word about pickles."""
    kind, message = offline[0]["encoder=RN50/openai"]
    assert kind == "ModelError"
    assert "it is not in the local cache and cannot be downloaded (offline was asked for)" in message


@pytest.mark.thorough
def test_a_variant_that_the_hub_does_not_have_is_named(outcomes):
    kind, message = outcomes[0]["generator=maker/pipeline?fp16"]
    assert kind == "ModelError"
    assert message.startswith("variant: ")


WITHOUT_TORCH = """
import json, sys
sys.modules["torch"] = None
import clinometer
clinometer.audit(**json.loads(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def audited(hub, tmp_path_factory):
    """An audit of a gated model and an encoder by their hub ids: what was asked, how it ended, where its cache is."""
    folder = tmp_path_factory.mktemp("audited")
    few = toy_suite(target=1, attribute=1, concepts=2).model_dump(mode="json", exclude_none=True)
    (folder / "toy.yaml").write_text(yaml.safe_dump(few))
    asked = {
        "model": "maker/gated@main", "encoder": "maker/clip", "suite": str(folder / "toy.yaml"),
        "out": str(folder / "run"), "steps": 1, "device": "cpu", "resamples": 99,
    }  # fmt: skip
    words = [word for name, value in asked.items() for word in (f"--{name}", str(value))]
    done = run(hub, folder / "home", "-m", "clinometer", "audit", *words, "--no-report", HF_TOKEN=TOKEN)
    return asked | {"report": False}, done, folder / "home"


@pytest.mark.thorough
@pytest.mark.slow
def test_a_finished_audit_of_hub_ids_is_repeated_without_torch_until_the_branch_moves(hub, audited):
    asked, done, home = audited
    assert done.returncode == 0, done.stderr

    def again(**environment):
        return run(hub, home, "-c", WITHOUT_TORCH, json.dumps(asked), HF_TOKEN=TOKEN, **environment)

    assert (done := again()).returncode == 0, done.stderr
    assert (done := again(HF_HUB_OFFLINE="1")).returncode == 0, done.stderr
    repository = hub.repositories["maker/gated"]
    repository.commit = "d00d" + "0" * 36
    try:
        assert "torch" in again().stderr
    finally:
        repository.commit = COMMIT


@pytest.mark.thorough
@pytest.mark.slow
def test_an_audit_by_hub_ids_opens_with_the_token_and_keeps_the_commits_alone(audited):
    asked, done, _ = audited
    assert done.returncode == 0, done.stderr
    out = Path(asked["out"])
    record = json.loads((out / "run.json").read_text())
    assert record["model"]["revision"] == COMMIT
    assert TOKEN not in done.stdout + done.stderr
    for path in (path for path in out.rglob("*") if path.is_file()):
        assert TOKEN.encode() not in path.read_bytes(), path
