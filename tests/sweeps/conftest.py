"""Sweeps of toys; the pages of their runs are blank, but where a test is marked ``pages``."""

import pytest

from tests.blank_pages import blank_pages, pages_where_marked

__all__ = ["blank_pages", "few", "pages_where_marked"]


@pytest.fixture(scope="module", autouse=True)
def few(few_resamples):
    """Intervals of 999 resamples, of runs and of settings."""
    from clinometer.sweeps.outcome import outcome_of

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(outcome_of.__kwdefaults__, "resamples", 999)
        yield
