import pytest

from tests.web.serving import client, make_runs


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A folder of two finished runs; nobody changes it."""
    return make_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def browser(runs, tmp_path_factory):
    return client(runs, cache=tmp_path_factory.mktemp("cache"))
