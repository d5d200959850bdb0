"""Audits as most tests want them: intervals of 999 resamples, and no page, which is most of a toy audit's time.

A test or a module that reads pages is marked ``pages``; in it they are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import clinometer as cm

RESAMPLES = 999
_drawn = [False]


@pytest.fixture(scope="module", autouse=True)
def pages_of_a_module(request: pytest.FixtureRequest) -> Iterator[None]:
    """Draw pages in what the tests of a marked module share."""
    yield from _pages(request)


@pytest.fixture(autouse=True)
def pages_of_a_test(request: pytest.FixtureRequest, pages_of_a_module: None) -> Iterator[None]:
    """Draw pages in a marked test."""
    yield from _pages(request)


def _pages(request: pytest.FixtureRequest) -> Iterator[None]:
    _drawn.append(request.node.get_closest_marker("pages") is not None)
    yield
    _drawn.pop()


def draws_pages() -> bool:
    """Tell whether the test that runs is marked ``pages``."""
    return _drawn[-1]


def options(**given: Any) -> dict[str, Any]:
    """Complete what is asked of an audit."""
    return {"resamples": RESAMPLES, "report": draws_pages()} | given


def audit(*what: Any, **given: Any) -> cm.Run:
    """Audit a model, as :func:`clinometer.audit`."""
    return cm.audit(*what, **options(**given))


def import_images(*what: Any, **given: Any) -> cm.Run:
    """Audit finished images, as :func:`clinometer.import_images`."""
    return cm.import_images(*what, **options(**given))


def sweep(grid: Any, *what: Any, **given: Any) -> Any:
    """Audit a grid, as :func:`clinometer.sweep`; a file says itself what it asks."""
    return cm.sweep(options(**grid) if isinstance(grid, Mapping) else grid, *what, **given)
