"""Runs of reproductions have no pages of their own, and figures no PDF, but where a test is marked ``pages``."""

import pytest

from clinometer.papers import page
from tests.quick import draws_pages, pages_of_a_module, pages_of_a_test

__all__ = ["pages_of_a_module", "pages_of_a_test"]


@pytest.fixture(scope="session", autouse=True)
def no_figures_as_pdf():
    """Fonts cut for each PDF are half of what a toy paper costs; who reads one is marked ``pages``."""
    with pytest.MonkeyPatch.context() as patch:
        drawn = page.pdf_file
        patch.setattr(page, "pdf_file", lambda *given: drawn(*given) if draws_pages() else b"%PDF")
        yield
