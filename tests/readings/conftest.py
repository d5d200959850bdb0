"""What readers said; runs have no pages but where a test is marked ``pages``."""

from tests.quick import pages_of_a_module, pages_of_a_test

__all__ = ["pages_of_a_module", "pages_of_a_test"]
