"""A server that is not ours and speaks OpenAI's images API: museq, with a tiny diffusers pipeline behind it.

What comes back over HTTP can be checked to the pixel: the same pipeline, drawn here from the same seeds.
"""

import socket
import threading
import time
from importlib.util import find_spec

import numpy as np
import pytest
from PIL import Image

from clinometer.errors import Code, ModelError
from clinometer.models import GenerationRequest, load_generator
from clinometer.models.images import decode_image
from clinometer.models.protocols import EditRequest
from tests import quick
from tests.raising import raises
from tests.toys import Eye, toy_suite

NEEDED = ("openai", "uvicorn", "muse", "httpx")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(map(find_spec, NEEDED)), reason="museq is in the extra: pip install clinometer[dev]"),
]

SETTINGS = {"height": 64, "width": 64}


@pytest.fixture(scope="module")
def server(stable_diffusion):
    """The address of museq's own app, runtime and routes, on a port of this machine."""
    import uvicorn
    from muse.core import server as muse
    from muse.core.registry import ModalityRegistry
    from muse.modalities.image_generation import MODALITY
    from muse.modalities.image_generation.routes import build_router
    from muse.modalities.image_generation.runtimes.diffusers import DiffusersText2ImageModel

    model = DiffusersText2ImageModel(
        hf_repo="", local_dir=str(stable_diffusion), device="cpu", dtype="float32", model_id="tiny", default_steps=2,
        default_guidance=7.5,
    )  # fmt: skip
    model._pipe.set_progress_bar_config(disable=True)
    registry = ModalityRegistry()
    registry.register(MODALITY, model)
    app = muse.create_app(registry=registry, routers={MODALITY: build_router(registry)})
    running = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        deadline = time.monotonic() + 600
        while not running.started:
            assert thread.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        running.should_exit = True
        thread.join(600)
        assert not thread.is_alive()


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "any")


def connect(server, model="tiny", **options):
    return load_generator(f"openai:{model}", base_url=server, price=0, retries=0, **(SETTINGS | options))


@pytest.mark.thorough
def test_an_audit_over_http_scores_what_the_pipeline_draws(server, stable_diffusion, tmp_path):
    suite = toy_suite(target=2, attribute=1, concepts=2)
    run = quick.audit(connect(server, send_seed=True), suite, tmp_path / "run", encoder=Eye())
    assert set(run.samples.status) == {"ok"}
    assert np.isfinite(run.scores[run.scores.metric == "mcas"].value).all()

    directly = load_generator(str(stable_diffusion), steps=2, guidance_scale=7.5, batch_size=1, **SETTINGS)
    requests = [GenerationRequest(sample.id, sample.prompt, sample.seed) for sample in run.plan]
    expected = {result.id: np.asarray(result.image, int) for result in directly.generate(requests)}
    for identifier, content in run.images(expected):
        drawn = np.asarray(decode_image(content).image, int)
        assert np.abs(drawn - expected[identifier]).max() <= 1  # rounding of one level of 255


def test_a_model_it_does_not_have_ends_the_run_with_its_words(server):
    with raises(ModelError, code=Code.REFUSED, match="gone"):
        list(connect(server, "gone").generate([GenerationRequest("a", "a cook", 1)]))


def test_a_size_it_does_not_draw_ends_the_run_with_its_words(server):
    with raises(ModelError, code=Code.REFUSED, match="64"):
        list(connect(server, height=32, width=32).generate([GenerationRequest("a", "a cook", 1)]))


def test_edits_that_it_makes_with_a_mask_only_end_the_run_with_its_words(server):
    editor = connect(server).editor()
    with raises(ModelError, code=Code.REFUSED):
        list(editor.edit([EditRequest("a", "a cook", 1, Image.new("RGB", (64, 64), "red"), 1.0)]))
