"""Small real models, saved once a session."""

from functools import cache

import pytest

from tests.builders import tiny_clip, tiny_stable_diffusion
from tests.models.diffusers.drawing import opened
from tests.models.diffusers.families import save_family
from tests.quick import pages_of_a_module, pages_of_a_test

__all__ = ["pages_of_a_module", "pages_of_a_test"]


@pytest.fixture(scope="session")
def stable_diffusion(tmp_path_factory):
    return tiny_stable_diffusion(tmp_path_factory.mktemp("models") / "tiny-sd")


@pytest.fixture(scope="session")
def clip(tmp_path_factory):
    return tiny_clip(tmp_path_factory.mktemp("models") / "tiny-clip")


@pytest.fixture(scope="session")
def shared(families):
    """A family's pipeline, opened when it is first asked for, for who draws from it and leaves it as it is."""
    return cache(lambda name: opened(families, name))


@pytest.fixture(scope="session")
def families(tmp_path_factory):
    """The directory of each family's pipeline, saved when it is first asked for."""
    folder = tmp_path_factory.mktemp("families")
    return cache(lambda name: save_family(name, folder))
