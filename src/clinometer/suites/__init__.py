"""Suites: what to ask a model. ``load_suite`` reads one, ``suite_names`` lists the built-in ones."""

from clinometer.suites.base import AttributeWords, PaperModel, PromptSpec, Protocol, Suite, SuiteTable, Unsaid
from clinometer.suites.classification import ClassificationSuite
from clinometer.suites.editing import EditingSuite
from clinometer.suites.leaning import AttributePrompt, Axis, Category, Group, Images, LeaningSuite, Target
from clinometer.suites.schema import (
    SHAPES,
    installed_suites,
    load_suite,
    suite_from_mapping,
    suite_names,
    write_scaffold,
)
from clinometer.suites.steerability import SteerabilitySuite
from clinometer.suites.t2iat import (
    AttributePair,
    DifferentialTest,
    ImagesPerPrompt,
    Stimulus,
    StimulusSet,
    T2iatSuite,
)
from clinometer.suites.undrawn import Stimuli, WeatSuite

__all__ = [
    "SHAPES",
    "AttributePair",
    "AttributePrompt",
    "AttributeWords",
    "Axis",
    "Category",
    "ClassificationSuite",
    "DifferentialTest",
    "EditingSuite",
    "Group",
    "Images",
    "ImagesPerPrompt",
    "LeaningSuite",
    "PaperModel",
    "PromptSpec",
    "Protocol",
    "SteerabilitySuite",
    "Stimuli",
    "Stimulus",
    "StimulusSet",
    "Suite",
    "SuiteTable",
    "T2iatSuite",
    "Target",
    "Unsaid",
    "WeatSuite",
    "installed_suites",
    "load_suite",
    "suite_from_mapping",
    "suite_names",
    "write_scaffold",
]
