"""The suite of the images whose memory is measured, here and in a process of its own."""

from __future__ import annotations

from tests.toys import toy_suite

SUITE = toy_suite(target=2, attribute=1, concepts=2)
