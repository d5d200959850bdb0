"""Suites: what to ask a model. ``load_suite`` reads one, ``suite_names`` lists the built-in ones."""

from clinometer.suites.base import Question, Sheet, Suite
from clinometer.suites.leaning import (
    AttributePrompt,
    Axis,
    Category,
    Group,
    Images,
    LeaningSuite,
    Target,
)
from clinometer.suites.schema import SHAPES, load_suite, suite_from_mapping, suite_names

__all__ = [
    "SHAPES",
    "AttributePrompt",
    "Axis",
    "Category",
    "Group",
    "Images",
    "LeaningSuite",
    "Question",
    "Sheet",
    "Suite",
    "Target",
    "load_suite",
    "suite_from_mapping",
    "suite_names",
]
