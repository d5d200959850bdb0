"""Errors are told apart by their code and fields, so that their wording can be improved in one place."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from clinometer.errors import ClinometerError, Code


@contextmanager
def raises(
    kind: type[ClinometerError], code: Code, field: str | Sequence[str] = (), match: str = "", most_lines: int = 2
) -> Iterator[pytest.ExceptionInfo[ClinometerError]]:
    """Expect an error with this code and these fields, whose message has one line or two.

    ``match`` : what the message must say, such as a number that was computed.
    ``most_lines`` : for a message that lists several problems, a line for each.
    """
    with pytest.raises(kind, match=match or None) as caught:
        yield caught
    error = caught.value
    fields = (field,) if isinstance(field, str) else tuple(field)
    assert (error.code, error.fields) == (code, fields), str(error)
    assert 1 <= len(str(error).strip().splitlines()) <= most_lines, str(error)
