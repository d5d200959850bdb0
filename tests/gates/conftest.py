"""Runs of toys, without pages."""

from tests.quick import pages_of_a_module, pages_of_a_test

__all__ = ["pages_of_a_module", "pages_of_a_test"]
