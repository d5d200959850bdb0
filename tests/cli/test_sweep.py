"""Several values of an option are a sweep, and none is dropped without a word."""

import re
import sys

import pytest

from clinometer import api
from clinometer.errors import Code, SweepError


@pytest.fixture
def asked(monkeypatch):
    """What the commands ask of the API: the function's name and its arguments."""
    found = []

    def note(name):
        def called(*given, **options):
            found.append((name, given, options))
            raise SweepError("enough")

        return called

    for name in ("audit", "sweep"):
        monkeypatch.setattr(api, name, note(name))
    return found


def test_several_models_are_a_sweep_of_them_all(cli, asked):
    cli(
        "audit",
        "--model",
        "a",
        "--model",
        "b",
        "--guidance",
        "1,3,7.5",
        "--seed",
        "0,1",
        "--seed",
        "2",
        "--images",
        "5",
    )
    ((name, (grid, out), options),) = asked
    assert (name, out) == ("sweep", None)
    assert grid["axes"] == {
        "suite": ["reference"], "model": ["a", "b"], "guidance": [1, 3, 7.5], "seed": [0, 1, 2],
    }  # fmt: skip
    assert grid["images"] == 5
    assert options["engine"] == "local"


def test_one_value_each_is_an_audit(cli, asked):
    cli("audit", "--model", "a", "--guidance", "3", "--steps", "5", "--seed", "2", "--lora", "none", "--height", "64")
    ((name, (model, suite, out), options),) = asked
    assert (name, model, suite, out) == ("audit", "a", "reference", None)
    assert (options["guidance_scale"], options["steps"], options["seed"]) == (3, 5, 2)
    assert options["model_options"] == {"height": 64}


def test_without_options_an_audit_is_of_the_reference_model(cli, asked):
    cli("audit")
    ((name, given, options),) = asked
    assert (name, given) == ("audit", ("reference", "reference", None))
    assert (options["seed"], options["steps"], options["guidance_scale"]) == (0, None, None)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["audit", "--seed", "0,x"], Code.MALFORMED, "--seed: found 'x'"),
        (["audit", "--guidance", "1,,3"], Code.MALFORMED, "--guidance: found ''"),
        (["audit", "--steps", "2.5"], Code.MALFORMED, r"--steps: found '2\.5'"),
        (["audit", "--images", "3", "--images", "5"], Code.DUPLICATE, "--images: found 2 "),
        (["score", "RUN", "--device", "cpu", "--device", "cuda"], Code.DUPLICATE, "--device: found 2 "),
        (["sweep", "missing.yaml"], Code.NOT_FOUND, r"missing\.yaml: "),
        (["audit", "--seed", "0,0"], Code.DUPLICATE, r"axes\.seed: 0 "),
        (["audit", "--guidance", "-1,3"], Code.OUT_OF_RANGE, r"axes\.guidance\.0: .*found -1"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_line(cli, words, code, said):
    status, found = cli(*words)
    assert (status, cli.error.code) == (2, code)
    assert re.search(said, found)
    assert "Traceback" not in found
    assert sys.argv[0] == "clinometer"
