"""Audits whose pages stay blank: most of a toy audit's time is its report, which ``tests/report`` draws and reads.

A conftest that imports both fixtures has blank pages; what is marked ``pages``, a test or a module, has whole ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from clinometer.pipeline import reporting
from clinometer.report import ReportInput

WHOLE = reporting.render_html


def blank(_: ReportInput) -> str:
    """A page that says nothing."""
    return "<!doctype html>"


@pytest.fixture(scope="module", autouse=True)
def blank_pages(request: pytest.FixtureRequest) -> Iterator[None]:
    """Of a module's own audits, which its tests share."""
    yield from _pages(WHOLE if _marked(request) else blank)


@pytest.fixture(autouse=True)
def pages_where_marked(request: pytest.FixtureRequest, blank_pages: None) -> Iterator[None]:
    """Of a single test's."""
    yield from _pages(WHOLE if _marked(request) else blank)


def _marked(request: pytest.FixtureRequest) -> bool:
    return request.node.get_closest_marker("pages") is not None


def _pages(render: Callable[[ReportInput], str]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reporting, "render_html", render)
        yield
