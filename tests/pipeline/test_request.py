"""An option of an audit is declared once: whatever takes or names the options has them from there."""

import inspect
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from typer.main import get_command

import clinometer as cm
from clinometer import api
from clinometer.cli.app import app
from clinometer.errors import Code, InvalidInputError
from clinometer.pipeline.request import (
    ALIKE,
    KEPT,
    OF_SUITE,
    Argument,
    AuditRequest,
    CellOptions,
    ask,
    fields_in_order,
    option_in,
    option_of,
)
from clinometer.suites import LeaningSuite
from clinometer.sweeps import SweepFile, sweep_from_mapping
from clinometer.sweeps.grid import COMMON
from tests.docs.pages import page
from tests.raising import raises

FIELDS = AuditRequest.model_fields
COMMANDS = get_command(app).commands
COMMAND = {option.name: option for option in COMMANDS["audit"].params}


def test_every_option_is_a_parameter_that_is_documented():
    parameters = inspect.signature(cm.audit).parameters
    assert list(parameters) == list(fields_in_order())
    assert {name: parameter.default for name, parameter in parameters.items()} == {
        name: field.default for name, field in FIELDS.items()
    }
    assert set(fields_in_order()) == set(FIELDS)
    for name, field in FIELDS.items():
        assert field.description, name
        assert f"\n    {name} : {field.description[:20]}" in cm.audit.__doc__


def test_every_option_is_typed_but_those_that_are_objects():
    untyped = {name for name in FIELDS if not option_of(name).typed}
    assert untyped == {"image_counts", "model_options", "progress"}
    assert set(FIELDS) - untyped <= COMMAND.keys()
    for name in set(FIELDS) - untyped:
        assert COMMAND[name].help.startswith(FIELDS[name].description)


def test_a_sweep_takes_what_holds_for_every_cell_and_its_page_names_it():
    assert set(CellOptions.model_fields) <= SweepFile.model_fields.keys()
    assert set(COMMON) == {*ALIKE, "options"}
    told = page("docs/sweeps.md")
    assert [name for name in CellOptions.model_fields if f"`{name}`" not in told] == []
    swept = sweep_from_mapping({"images": 3, "resamples": 99, "report": False, "concepts": "a, b"})
    assert (swept.images, swept.resamples, swept.report, swept.concepts) == (3, 99, False, ["a", "b"])


def test_run_json_keeps_what_is_not_the_default():
    assert ask().kept == {}
    assert ask(resamples=99, report=False, concepts=2, images=3).kept == {
        "resamples": 99, "report": False, "concepts": 2,
    }  # fmt: skip
    assert all(f"`{name}`" in page("docs/runs.md") for name in KEPT)


def test_a_suite_takes_what_is_marked_as_its_own():
    assert set(OF_SUITE) == LeaningSuite.options | {"image_counts"}  # which every study takes


@pytest.mark.parametrize(
    ("code", "option", "found"),
    [
        (Code.OUT_OF_RANGE, "images", 0),
        (Code.WRONG_TYPE, "images", True),
        (Code.OUT_OF_RANGE, "steps", 0),
        (Code.WRONG_TYPE, "steps", 2.5),
        (Code.OUT_OF_RANGE, "guidance_scale", -1),
        (Code.NOT_FINITE, "guidance_scale", float("inf")),
        (Code.OUT_OF_RANGE, "batch_size", 0),
        (Code.OUT_OF_RANGE, "workers", 0),
        (Code.OUT_OF_RANGE, "budget", -1),
        (Code.OUT_OF_RANGE, "resamples", 18),
        (Code.OUT_OF_RANGE, "seed", -1),
        (Code.OUT_OF_RANGE, "seed", 1.5),
        (Code.UNKNOWN_NAME, "protocol", "mine"),
        (Code.UNKNOWN_NAME, "text_targets", "image"),
        (Code.MALFORMED, "until", "soon"),
        (Code.MALFORMED, "until", True),
        (Code.MALFORMED, "until", 0),
        (Code.MALFORMED, "until", float("nan")),
        (Code.MALFORMED, "concepts", []),
        (Code.MALFORMED, "concepts", True),
        (Code.TOO_FEW, "device", ""),
        (Code.WRONG_TYPE, "report", "maybe"),
    ],
)
def test_a_value_out_of_its_limits_is_named_by_its_option(code, option, found):
    with raises(InvalidInputError, code=code, field=option) as caught:
        ask(**{option: found})
    assert caught.value.fields == (option,)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.fields) == (str(caught.value), (option,))


def test_an_option_that_does_not_exist_is_named_with_the_one_that_was_meant():
    with raises(InvalidInputError, code=Code.UNKNOWN_NAME, field="imgaes", match=r"^imgaes: .*did you mean images\?$"):
        cm.audit("reference", "mcas", imgaes=3)


def test_numbers_of_numpy_are_numbers():
    asked = ask(seed=np.int64(3), guidance_scale=np.float64(2.5), until=np.float64(0.1))
    assert (asked.seed, asked.guidance_scale, asked.until) == (3, 2.5, 0.1)
    assert type(asked.seed) is int


def test_every_option_of_a_function_is_one_of_its_command():
    """What a function of the API declares, its command has, with the same default; nothing is declared by both."""
    of = {
        "score": api.score_run, "trace": api.trace_run, "verify": api.verify_run, "compare": api.compare,
        "gate": api.gate, "card": api.model_card, "export": api.export, "push": api.push, "import": api.import_images,
        "classify": api.classify_images, "test": api.association_test, "plan": api.plan, "sweep": api.sweep,
        "questions": api.write_questions, "reproduce": api.reproduce, "mitigate": api.mitigate, "read": api.read_run,
        "report": api.paper_table, "register": api.register,
    }  # fmt: skip
    for name, function in of.items():
        typed = {each.name: each for each in COMMANDS[name].params}
        for parameter in inspect.signature(function).parameters.values():
            option = option_in(function.__annotations__[parameter.name])
            if option is None:
                continue
            made = typed[option.key or parameter.name]
            assert made.help.startswith(option.help), (name, parameter.name)
            assert made.param_type_name == ("argument" if isinstance(option, Argument) else "option")
            assert made.default in (None, parameter.default), (name, parameter.name)
            assert re.search(rf"\b{parameter.name}(, \w+)* : ", function.__doc__), (name, parameter.name)


def test_a_signature_is_read_at_once_and_without_typer():
    code = (
        "import sys, clinometer as cm; cm.gate, cm.mitigate;"
        "heavy = ('typer', 'click', 'rich', 'torch', 'pandas', 'numpy', 'scipy');"
        "print([name for name in heavy if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_docstring_describes_parameters_in_the_order_of_the_signature():
    described = re.findall(r"^    (\w+(?:, \w+)*) : ", api.export.__doc__, re.MULTILINE)
    assert ", ".join(described).split(", ") == list(inspect.signature(api.export).parameters)
    assert inspect.signature(api.export).parameters["license"].annotation is str
