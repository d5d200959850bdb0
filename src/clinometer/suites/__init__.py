"""Suites: what to ask a model. ``load_suite`` reads one, ``suite_names`` lists the built-in ones."""

from clinometer.suites.schema import (
    AttributePrompt,
    Axis,
    Category,
    Group,
    Images,
    Suite,
    Target,
    load_suite,
    suite_from_mapping,
    suite_names,
)

__all__ = [
    "AttributePrompt",
    "Axis",
    "Category",
    "Group",
    "Images",
    "Suite",
    "Target",
    "load_suite",
    "suite_from_mapping",
    "suite_names",
]
