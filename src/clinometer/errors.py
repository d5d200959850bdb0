"""Every error that clinometer raises on purpose.

::

    ClinometerError
    ├── InvalidInputError (ValueError)   arrays or arguments that a formula cannot take
    ├── SuiteError                       a suite file: unknown key, missing group, empty set, duplicate name
    ├── ModelError                       a generator or an encoder cannot be loaded or used
    │   └── ModelNotFoundError           no such directory, package entry or hub model
    ├── ImportManifestError              a manifest of finished images does not say what it must
    ├── EngineError                      workers cannot be started, or die over a part again and again
    ├── SweepError                       a sweep: unknown key, empty axis, doubled cell, baseline that is not there
    ├── GateError                        a gate's policy, or a rule that names numbers which a run does not have
    ├── RatingsError                     ratings by people, or a rating task, that cannot be used
    └── RunError                         a run directory
        ├── RunNotFoundError             there is none at that place
        ├── RunMismatchError             it belongs to another suite, model, seed or setting
        ├── RunLockedError               another process is working on it
        ├── RunCorruptError              a part of it cannot be read
        └── RunStorageError              a part of it cannot be written: disk full, no permission

A message is one or two lines: the file, the field, what was found, what was expected, and the way out.
The command line prints it without a traceback and exits with status 2. Wording may change with any release, so a
program branches on the class, on :attr:`ClinometerError.code` and on :attr:`ClinometerError.fields`::

    try:
        run = clinometer.audit(model=name, suite="mcas")
    except ClinometerError as error:
        if error.code is Code.LOCKED:
            wait()
        elif error.code is Code.UNKNOWN_NAME and "encoder" in error.fields:
            ask_for_another_encoder()
        else:
            raise

An exception that nobody foresaw carries notes of what was being worked on. See decision 79.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from typing import Any, ClassVar, Final, Self, TypeVar

from clinometer._messages import did_you_mean, first_and_more, quoted
from clinometer._secrets import masked


class Code(StrEnum):
    """The kind of problem that an error reports. The values are stable; the wording of messages is not."""

    ALREADY_EXISTS = "already-exists"
    """What would be written is there already."""
    CONFLICT = "conflict"
    """Two things are given that exclude each other, or one without the other that it needs."""
    CORRUPT = "corrupt"
    """A file is not what was written: changed, cut short, or damaged."""
    DUPLICATE = "duplicate"
    """A name, key, column or value is given twice where it may be given once."""
    FAILED = "failed"
    """What was started stopped with an error of its own: a plug-in, a worker, a library."""
    INCOMPLETE = "incomplete"
    """A run, a download or a set of weights lacks a part that is still to come."""
    INVALID = "invalid"
    """A value or a file cannot be used, for a reason that no other code names."""
    LOCKED = "locked"
    """Another process is working on it."""
    MALFORMED = "malformed"
    """Text does not have the form that is expected, such as a template without its placeholder."""
    MISMATCH = "mismatch"
    """Two things do not belong together: another model, suite, seed, group or version."""
    MISSING = "missing"
    """A value, key, column or option that is needed is not given."""
    NOT_FINITE = "not-finite"
    """NaN, infinity, or a zero vector where a direction is needed."""
    NOT_FOUND = "not-found"
    """No such file, folder, model or run."""
    NOT_INSTALLED = "not-installed"
    """A package that is needed is not installed."""
    NOT_TEXT = "not-text"
    """A file is not text in the encoding that is expected."""
    OUT_OF_RANGE = "out-of-range"
    """A number lies outside what is allowed."""
    OVER_BUDGET = "over-budget"
    """It would cost more than was allowed."""
    REFUSED = "refused"
    """A service or the owner of a model declined: no key, no consent, no credit, a rejected prompt."""
    STORAGE = "storage"
    """Nothing can be written: disk full, no permission, no such place."""
    TOO_FEW = "too-few"
    """Fewer items than are needed, or none."""
    TOO_MANY = "too-many"
    """More items, or a larger file, than is allowed."""
    UNDEFINED = "undefined"
    """What was given is valid, and the quantity does not exist for it or cannot be decided from it."""
    UNKNOWN_NAME = "unknown-name"
    """A name that is none of those known."""
    UNREACHABLE = "unreachable"
    """A server cannot be reached."""
    UNREADABLE = "unreadable"
    """A file cannot be opened or parsed."""
    UNSUPPORTED = "unsupported"
    """It does not apply here, or this model, method or format cannot do it."""
    UNTRUSTED = "untrusted"
    """It could run code or reach further than it may, and nobody has allowed it."""
    WRONG_SHAPE = "wrong-shape"
    """Arrays or lists whose dimensions or lengths do not fit."""
    WRONG_TYPE = "wrong-type"
    """Another type of value is expected: a number, a text, a mapping."""


_Error = TypeVar("_Error", bound="ClinometerError")


class _Coded:
    """A constructor of errors of one code, inherited by every class: ``ModelError.unsupported("…", field="lora")``."""

    def __init__(self, code: Code) -> None:
        self._code = code

    def __get__(self, instance: _Error | None, kind: type[_Error]) -> Callable[..., _Error]:
        return partial(kind, code=self._code)


class ClinometerError(Exception):
    """Base of every error raised on purpose. Its message holds no password and no key.

    Parameters
    ----------
    problem : what is wrong, and the way out.
    code : the kind of problem; that of the class where none is given.
    field : the option or argument that it is about, by its name in Python, or several; the message begins with it.
    takes : the names of what could be given instead; the message ends with them.

    Attributes
    ----------
    code : the kind of problem.
    fields : the names of the options or arguments that it is about; empty where it is about none.
    """

    default_code: ClassVar[Code] = Code.INVALID

    already_exists = _Coded(Code.ALREADY_EXISTS)
    conflict = _Coded(Code.CONFLICT)
    corrupt = _Coded(Code.CORRUPT)
    duplicate = _Coded(Code.DUPLICATE)
    failed = _Coded(Code.FAILED)
    incomplete = _Coded(Code.INCOMPLETE)
    locked = _Coded(Code.LOCKED)
    malformed = _Coded(Code.MALFORMED)
    mismatch = _Coded(Code.MISMATCH)
    missing = _Coded(Code.MISSING)
    not_finite = _Coded(Code.NOT_FINITE)
    not_found = _Coded(Code.NOT_FOUND)
    not_installed = _Coded(Code.NOT_INSTALLED)
    not_text = _Coded(Code.NOT_TEXT)
    out_of_range = _Coded(Code.OUT_OF_RANGE)
    over_budget = _Coded(Code.OVER_BUDGET)
    refused = _Coded(Code.REFUSED)
    storage = _Coded(Code.STORAGE)
    too_few = _Coded(Code.TOO_FEW)
    too_many = _Coded(Code.TOO_MANY)
    undefined = _Coded(Code.UNDEFINED)
    unknown_name = _Coded(Code.UNKNOWN_NAME)
    unreachable = _Coded(Code.UNREACHABLE)
    unreadable = _Coded(Code.UNREADABLE)
    unsupported = _Coded(Code.UNSUPPORTED)
    untrusted = _Coded(Code.UNTRUSTED)
    wrong_shape = _Coded(Code.WRONG_SHAPE)
    wrong_type = _Coded(Code.WRONG_TYPE)

    def __init__(
        self,
        problem: object = "",
        *,
        code: Code | None = None,
        field: str | Sequence[str] = (),
        takes: Sequence[str] | None = None,
    ) -> None:
        self.problem = masked(str(problem))
        self.code = self.default_code if code is None else code
        self.fields = (field,) if isinstance(field, str) else tuple(field)
        self.takes = takes
        super().__init__(_tell(self.problem, self.fields, takes))

    @classmethod
    def expected_one_of(
        cls, known: Collection[str], found: object, *, field: str | Sequence[str] = (), hint: str = ""
    ) -> Self:
        """Return the error of a name that is none of those known.

        >>> str(InvalidInputError.expected_one_of(["exact", "sampled"], "exat", field="method"))
        "method: expected one of exact, sampled, found 'exat'; did you mean exact?"
        """
        expected = f"one of {first_and_more(list(known), 20)}" if len(known) > 1 else ", ".join(known) or "none"
        hints = [hint, did_you_mean(found, known) if isinstance(found, str) else ""]
        problem = "; ".join([f"expected {expected}, found {quoted(found)}", *filter(None, hints)])
        return cls(problem, code=Code.UNKNOWN_NAME, field=field)

    @classmethod
    def expected_shape(cls, expected: str, *found: Any, field: str | Sequence[str] = ()) -> Self:
        """Return the error of one or more arrays, or shapes, that do not fit."""
        shapes = [str(tuple(getattr(array, "shape", array))) for array in found]
        problem = f"expected {expected}, found shape{'s' if len(shapes) > 1 else ''} {_listed(shapes)}"
        return cls(problem, code=Code.WRONG_SHAPE, field=field)

    @classmethod
    def lacks_package(cls, package: str, install: str, *, what: str = "", field: str = "") -> Self:
        """Return the error of a package that is not installed; ``install`` is what pip is given."""
        problem = f"{what and f'{what}: '}{package} is not installed; give: pip install '{install}'"
        return cls(problem, code=Code.NOT_INSTALLED, field=field or ())

    @classmethod
    def cannot_read(cls, place: object, error: BaseException | str, way_out: str = "") -> Self:
        """Return the error of a file that cannot be opened."""
        return cls(f"{place}: cannot be read: {_reason(error)}{way_out and f'; {way_out}'}", code=Code.UNREADABLE)

    @classmethod
    def cannot_write(cls, place: object, error: BaseException | str, way_out: str = "") -> Self:
        """Return the error of a place where nothing can be written."""
        return cls(f"{place}: cannot be written: {_reason(error)}{way_out and f'; {way_out}'}", code=Code.STORAGE)

    def in_words_of(self, names: Mapping[str, str]) -> str:
        """Return the message with other names for its fields, such as a command's options; others are left out."""
        if not self.fields or not names.keys() >= set(self.fields):
            return str(self)
        takes = None if self.takes is None else [names[name] for name in self.takes if name in names]
        return _tell(self.problem, [names[name] for name in self.fields], takes)


def _listed(names: Sequence[str]) -> str:
    """Return ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _reason(error: BaseException | str) -> str:
    return str(getattr(error, "strerror", None) or error)


def _tell(problem: str, fields: Sequence[str], takes: Sequence[str] | None) -> str:
    opening = _listed(fields)
    ending = "" if takes is None else f"; it takes {', '.join(takes) or 'none'}"
    return f"{f'{opening}: ' if opening else ''}{problem}{ending}"


class InvalidInputError(ClinometerError, ValueError):
    """Arrays or arguments that a formula cannot take."""


class SuiteError(ClinometerError):
    """A suite file that cannot be used."""


class ModelError(ClinometerError):
    """A generator or an encoder that cannot be loaded or used."""


class ModelNotFoundError(ModelError):
    """No such model: not a directory, not a package entry, not on the hub."""

    default_code = Code.NOT_FOUND


class ImportManifestError(ClinometerError):
    """A manifest of finished images that does not say what it must."""


class EngineError(ClinometerError):
    """Workers that cannot be started, or that die over a part again and again."""

    default_code = Code.FAILED


class SweepError(ClinometerError):
    """A sweep that cannot be made of what was asked, or of whose cells some failed."""


class GateError(ClinometerError):
    """A gate's policy that cannot be read, or that names numbers which a run does not have."""


class RatingsError(ClinometerError):
    """Ratings by people, or a rating task, that cannot be used."""


class RunError(ClinometerError):
    """A run directory that cannot be used."""


class RunNotFoundError(RunError):
    """There is no run at that place."""

    default_code = Code.NOT_FOUND


class RunMismatchError(RunError):
    """The run directory belongs to another suite, model, seed or setting."""

    default_code = Code.MISMATCH


class RunLockedError(RunError):
    """Another process is working on the run directory."""

    default_code = Code.LOCKED


class RunCorruptError(RunError):
    """A part of the run cannot be read."""

    default_code = Code.CORRUPT


class RunStorageError(RunError):
    """A part of the run cannot be written."""

    default_code = Code.STORAGE


class DamagedRunWarning(UserWarning):
    """A part of a finished run is missing or is not what was written; its report says so at the top."""


class RatingsPlaceWarning(UserWarning):
    """The database of ratings was moved to where it belongs, or another one lies where it used to."""


class UncheckedRunWarning(UserWarning):
    """A run was begun before files had checksums: what is read back from it cannot be verified."""


MARK: Final = "in hand: "
PLACE: Final = "run directory: "


@contextmanager
def in_hand(what: str, *, mark: str = MARK) -> Iterator[None]:
    """Add a note of what was being worked on to an exception that was not raised on purpose."""
    try:
        yield
    except ClinometerError:
        raise
    except Exception as error:
        error.add_note(f"{mark}{what}")
        raise


def things_in_hand(error: BaseException) -> list[str]:
    """Return what was being worked on, the innermost first."""
    return _collect_notes(error, MARK)


def run_directory(error: BaseException) -> str:
    """Return the run directory that was worked on; empty where none was."""
    return next(iter(_collect_notes(error, PLACE)), "")


def _collect_notes(error: BaseException, mark: str) -> list[str]:
    """Return the notes of an exception that begin with a mark."""
    notes = getattr(error, "__notes__", [])
    marked = [note.removeprefix(mark) for note in notes if isinstance(note, str) and note.startswith(mark)]
    return list(dict.fromkeys(marked))
