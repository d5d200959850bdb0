"""Hypothesis: the same examples everywhere, and no stopwatch: a loaded machine is no failure."""

from hypothesis import settings

settings.register_profile("clinometer", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("clinometer")
