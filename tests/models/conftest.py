"""Small real models, saved once a session."""

import pytest

from tests.builders import tiny_clip, tiny_stable_diffusion


@pytest.fixture(scope="session")
def stable_diffusion(tmp_path_factory):
    return tiny_stable_diffusion(tmp_path_factory.mktemp("models") / "tiny-sd")


@pytest.fixture(scope="session")
def clip(tmp_path_factory):
    return tiny_clip(tmp_path_factory.mktemp("models") / "tiny-clip")
