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
The command line prints it without a traceback and exits with status 2.

Where something goes wrong that nobody foresaw, notes of what was in hand travel with the exception.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from clinometer._secrets import masked


class ClinometerError(Exception):
    """Base of every error raised on purpose. Its message holds no password and no key.

    Parameters
    ----------
    problem : what is wrong, and the way out.
    field : the option or the argument that it is about, by its name in Python, or several; the message begins with it.
    takes : the names of what could be given instead; the message ends with them.
    """

    def __init__(
        self, problem: object = "", *, field: str | Sequence[str] = (), takes: Sequence[str] | None = None
    ) -> None:
        self.problem = masked(str(problem))
        self.fields = (field,) if isinstance(field, str) else tuple(field)
        self.takes = takes
        super().__init__(_tell(self.problem, self.fields, takes))

    def in_words_of(self, names: Mapping[str, str]) -> str:
        """Word the message with other names for its fields, such as a command's options; others are left out."""
        if not self.fields or not names.keys() >= set(self.fields):
            return str(self)
        takes = None if self.takes is None else [names[name] for name in self.takes if name in names]
        return _tell(self.problem, [names[name] for name in self.fields], takes)


def _tell(problem: str, fields: Sequence[str], takes: Sequence[str] | None) -> str:
    opening = " and ".join(filter(None, (", ".join(fields[:-1]), *fields[-1:])))
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


class ImportManifestError(ClinometerError):
    """A manifest of finished images that does not say what it must."""


class EngineError(ClinometerError):
    """Workers that cannot be started, or that die over a part again and again."""


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


class RunMismatchError(RunError):
    """The run directory belongs to another suite, model, seed or setting."""


class RunLockedError(RunError):
    """Another process is working on the run directory."""


class RunCorruptError(RunError):
    """A part of the run cannot be read."""


class RunStorageError(RunError):
    """A part of the run cannot be written."""


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
    """Note what was in hand on an exception that passes and was not raised on purpose."""
    try:
        yield
    except ClinometerError:
        raise
    except Exception as error:
        error.add_note(f"{mark}{what}")
        raise


def things_in_hand(error: BaseException) -> list[str]:
    """Return what was in hand, the nearest first."""
    return _collect_notes(error, MARK)


def run_directory(error: BaseException) -> str:
    """Return the run directory that was worked on; empty where none was."""
    return next(iter(_collect_notes(error, PLACE)), "")


def _collect_notes(error: BaseException, mark: str) -> list[str]:
    """Return notes of an exception, and of those that it replaces."""
    notes = getattr(error, "__notes__", [])
    own = [note.removeprefix(mark) for note in notes if isinstance(note, str) and note.startswith(mark)]
    return list(dict.fromkeys(own))
