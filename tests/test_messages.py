"""Phrases that messages share, and the codes of errors."""

import pickle

import pytest

from clinometer._messages import did_you_mean, first_and_more, nearest
from clinometer.errors import Code, GateError, ModelError, RunLockedError


@pytest.mark.parametrize(("n", "shown", "said"), [(1, 1, "0"), (2, 1, "0 and 1 more"), (3, 3, "0, 1, 2")])
def test_all_names_are_shown_or_counted(n, shown, said):
    assert first_and_more([str(i) for i in range(n)], shown) == said


def test_a_mistyped_name_finds_the_one_that_was_meant_whatever_its_case():
    assert did_you_mean("ceo", ["CEO", "nurse"]) == "did you mean CEO?"
    assert did_you_mean("nobody", ["CEO", "nurse"]) == ""
    assert nearest("mcsa", ["xmcas", "reference", "mcas"], most=3) == ["mcas", "xmcas"]


def test_an_error_has_the_code_of_its_constructor_or_else_of_its_class():
    assert (ModelError.unsupported("no", field="lora").code, ModelError("no").code) == (Code.UNSUPPORTED, Code.INVALID)
    assert (RunLockedError("held").code, RunLockedError("held", code=Code.STORAGE).code) == (Code.LOCKED, Code.STORAGE)
    copied = pickle.loads(pickle.dumps(ModelError.too_few("none given", field="images")))  # as it comes from a worker
    assert (str(copied), copied.code, copied.fields) == ("images: none given", "too-few", ("images",))


def test_every_code_has_a_constructor_and_a_plain_value():
    for code in set(Code) - {Code.INVALID}:
        error = getattr(GateError, code.name.lower())("problem")
        assert (type(error), error.code, code) == (GateError, code, code.name.lower().replace("_", "-"))


def test_a_name_that_is_unknown_is_answered_by_those_that_are_known():
    told = ModelError.expected_one_of(["exact", "sampled"], "exat", field="method")
    assert (str(told), told.code) == (
        "method: expected one of exact, sampled, found 'exat'; did you mean exact?", Code.UNKNOWN_NAME
    )  # fmt: skip
    assert str(ModelError.expected_one_of(["one"], 3)) == "expected one, found 3"


def test_what_many_places_report_is_worded_by_one_constructor_each():
    shape = ModelError.expected_shape("(n, 2)", (3,), (4, 5), field="x")
    assert (str(shape), shape.code) == ("x: expected (n, 2), found shapes (3,) and (4, 5)", Code.WRONG_SHAPE)
    lacking = ModelError.lacks_package("peft", "clinometer[models]", what="lora")
    assert (str(lacking), lacking.code) == (
        "lora: peft is not installed; give: pip install 'clinometer[models]'", Code.NOT_INSTALLED
    )  # fmt: skip
    unreadable = ModelError.cannot_read("a.csv", PermissionError(13, "Permission denied"), "give another file")
    assert (str(unreadable), unreadable.code) == (
        "a.csv: cannot be read: Permission denied; give another file", Code.UNREADABLE
    )  # fmt: skip
    full = ModelError.cannot_write("a.csv", "No space left on device")
    assert (str(full), full.code) == ("a.csv: cannot be written: No space left on device", Code.STORAGE)
    option = ModelError.unknown_name("no such option", field="stepz", takes=["steps", "width"])
    assert str(option) == "stepz: no such option; it takes steps, width"
