"""Errors are told apart by their code and fields, so that their wording can be improved in one place."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from clinometer.errors import ClinometerError, Code


@contextmanager
def raises(
    kind: type[ClinometerError], code: Code, field: str | Sequence[str] = (), match: str = ""
) -> Iterator[pytest.ExceptionInfo[ClinometerError]]:
    """Expect an error with this code and these fields, whose message is one or two lines.

    ``match`` : what the message must say, such as a number that was computed.
    """
    with pytest.raises(kind, match=match or None) as caught:
        yield caught
    error = caught.value
    fields = (field,) if isinstance(field, str) else tuple(field)
    assert (error.code, error.fields) == (code, fields), str(error)
    assert 1 <= len(str(error).strip().splitlines()) <= 2, str(error)
