"""Settings of a suite that a run's scores are given on purpose after it was drawn, such as another margin.

run.json keeps the suite as it was asked, and beside it each change with the old value, the new one and the date. Only
what scoring alone reads may change: images were drawn, and rounds stopped, by the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import yaml

from clinometer.errors import SuiteError
from clinometer.suites import Suite, suite_from_mapping

OPTION = "--suite-option"


def with_changes(suite: Suite, changes: Iterable[Mapping[str, Any]]) -> Suite:
    """A suite with the changes that a run has recorded, the last of each setting."""
    new = {change["option"]: change["new"] for change in changes}
    if not new:
        return suite
    return suite_from_mapping(suite.model_dump() | new, source=f"{OPTION} {', '.join(new)}")


def changes_of(suite: Suite, options: Sequence[str], *, until: bool) -> list[dict[str, Any]]:
    """What ``margin=0.2`` and its like change in a suite, as run.json records it; nothing where that is so already.

    Parameters
    ----------
    until : whether the run was drawn until decided, by the suite as it is.

    Raises
    ------
    SuiteError
        The message names the setting, and those there are.
    """
    if options and until:
        raise SuiteError(
            f"{OPTION} {options[0]}: the run's images were drawn until decided by the suite as it was; start a new run "
            "with another suite"
        )
    changed = with_changes(suite, [_read(option, suite) for option in options])
    since = datetime.now(UTC).isoformat("T", "seconds")
    return [
        {"option": name, "old": getattr(suite, name), "new": getattr(changed, name), "since": since}
        for name in sorted(suite.scoring_options)
        if getattr(suite, name) != getattr(changed, name)
    ]


def _read(option: str, suite: Suite) -> dict[str, Any]:
    """A change as it is typed: a name and a value in YAML."""
    name, separator, value = option.partition("=")
    name = name.strip()
    if not separator or name not in suite.scoring_options:
        settings = ", ".join(f"{setting}=…" for setting in sorted(suite.scoring_options)) or "none"
        raise SuiteError(
            f"{OPTION} {option}: not a setting that can change after drawing; of suite {suite.name}, study "
            f"{suite.study!r}, these are: {settings}"
        )
    try:
        return {"option": name, "new": yaml.safe_load(value)}
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SuiteError(f"{OPTION} {option}: its value is not YAML, expected such as {name}=0.2") from error
