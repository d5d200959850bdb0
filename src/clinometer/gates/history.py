"""A run compared with the last runs that were accepted: which of its numbers have changed.

One checkpoint alone is never called changed. Of 41 runs, one is the most extreme every night, and a test that supposes
no distribution cannot know that from a change; so it asks whether the last few together lie elsewhere. See decision 75.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from clinometer._messages import first_and_more
from clinometer.errors import ClinometerError, GateError
from clinometer.gates.numbers import GateReason
from clinometer.runs.browse import found_below
from clinometer.runs.run import Run
from clinometer.runs.verification import SCORES, are_whole, outdated
from clinometer.stats.change import fewest_records, latest_change
from clinometer.studies.refusals.scores import REFUSAL
from clinometer.studies.refusals.scoring import with_refusals

LAST: Final = 40
"""Earlier runs that a run is compared with. With 36 or more, three runs that lie far from these are enough."""

NIGHTS: Final = 365
YEARLY: Final = 0.05
"""So many gates, a night each, raise any false alarm with this chance at most."""

NEEDED: Final = fewest_records(YEARLY / NIGHTS)
"""Runs that a test needs, the one that is tested included."""

MOST_RUNS: Final = 5_000
"""Runs that a folder may hold: the record of each is read."""

_KEYS: Final = ("metric", "component", "concept", "category", "group", "setting", "encoder")
_SETTINGS: Final = ("guidance_scale", "steps", "scheduler", "negative_prompt", "width", "height")
"""How images are drawn: with other settings a model draws others, and the model need not have changed."""


@dataclass(frozen=True)
class History:
    """The earlier runs that a run is compared with.

    Attributes
    ----------
    place : the folder.
    runs : those that are comparable, in the order in which they were begun; at most the last ``last``.
    left_out : of each run in the folder that is not, where it lies and why.
    last : how many were asked for.
    """

    place: str
    runs: tuple[Run, ...]
    left_out: tuple[tuple[str, str], ...]
    last: int

    @property
    def is_long_enough(self) -> bool:
        """Return whether there are enough earlier runs to test for a change."""
        return len(self.runs) + 1 >= NEEDED

    def as_mapping(self) -> dict[str, Any]:
        """Return the earlier runs that were used, and those left out, as a mapping for JSON."""
        return {
            "place": self.place,
            "last": self.last,
            "runs": [{"place": run.directory.shown, "created": run.record["created"]} for run in self.runs],
            "left_out": [{"place": place, "reason": reason} for place, reason in self.left_out],
        }

    def in_words(self) -> str:
        """Return ``Held against 40 runs in nights; 2 are left out: …``."""
        held = f"Held against {len(self.runs)} earlier run{'' if len(self.runs) == 1 else 's'} in {self.place}"
        if not self.left_out:
            return f"{held}."
        reasons = [f"{place} ({reason})" for place, reason in self.left_out]
        return f"{held}; left out: {first_and_more(reasons, most=3)}."


def find_history(run: Run, place: str | os.PathLike[str], last: int = LAST) -> History:
    """Find the last runs in a folder, or below it, that were begun before a run and asked what it was asked.

    A run is left out, with the reason, where it is of another suite, encoder or setting; was drawn until decided, or
    with a seed that leaves the nights unlike each other; is damaged or not scored; was begun after the run, as where a
    clock went backwards; or is the run itself, or a copy of one.

    Raises
    ------
    GateError
        ``last`` is too few to judge by; the folder holds no run but this, or too many.
    """
    if last < NEEDED - 1:
        raise GateError.out_of_range(
            f"found {last}, expected {NEEDED - 1} or more: fewer runs can show no change", field="last"
        )
    opened, left_out = _open_others(run, os.fspath(place))
    opened.sort(key=lambda earlier: (earlier.record["created"], earlier.directory.place))
    comparable, seen = list[Run](), {run.record.get("checksum")}
    for earlier in opened:
        checksum = earlier.record.get("checksum")
        why = "a copy of another run" if checksum and checksum in seen else _explain_incomparable(run, earlier)
        seen.add(checksum)
        if why:
            left_out.append((earlier.directory.shown, why))
        else:
            comparable.append(earlier)
    # Where the run's seed was used before, every night must start from the same noise, or those that do not would
    # differ more from this one; else every night must have a seed of its own, of which the latest counts.
    latest = {earlier.record["seed"]: earlier for earlier in comparable}
    alike = [earlier for earlier in comparable if earlier.record["seed"] == run.record["seed"]]
    alike = alike or [earlier for earlier in comparable if latest[earlier.record["seed"]] is earlier]
    others = [earlier.directory.shown for earlier in comparable if earlier not in alike]
    left_out += [(other, "its seed: give all runs one, or each its own") for other in others]
    used = list[Run]()
    while alike and len(used) < last:  # only those that count are read
        earlier = alike.pop()
        if why := _explain_unusable(run, earlier):
            left_out.append((earlier.directory.shown, why))
        else:
            used.append(earlier)
    return History(os.fspath(place), tuple(reversed(used)), tuple(left_out), last)


def _open_others(run: Run, place: str) -> tuple[list[Run], list[tuple[str, str]]]:
    """Open the runs of a folder but the run itself; return also which cannot be read, and why."""
    opened, unread = list[Run](), list[tuple[str, str]]()
    for directory in found_below(place, depth=1):
        if directory.place == run.directory.place:
            continue
        if len(opened) + len(unread) >= MOST_RUNS:
            raise GateError.too_many(
                f"{place}: found more than {MOST_RUNS:,} runs; move the oldest elsewhere", field="history"
            )
        try:
            earlier = Run(directory.url)
            _ = earlier.record  # read, and refused if it is not what a run records
            opened.append(earlier)
        except ClinometerError as error:
            unread.append((directory.shown, " ".join(directory.without_place(error).split())[:200]))
    if not opened and not unread:
        raise GateError.too_few(
            f"{place}: found no other run there; give the folder that holds the earlier runs", field="history"
        )
    return opened, unread


def _explain_incomparable(run: Run, earlier: Run) -> str:
    """Explain by the records why a run is no earlier one of the same kind; empty where it is one."""
    ours, theirs = run.record, earlier.record
    settings = [card.get("settings", {}) for card in (ours["model"], theirs["model"])]
    other = [name for name in _SETTINGS if settings[0].get(name) != settings[1].get(name)]
    checks = (
        (theirs["created"] > ours["created"], "begun after this run"),
        (theirs["suite_fingerprint"] != ours["suite_fingerprint"], "another suite, or other numbers of images"),
        (theirs["origin"] != ours["origin"], f"its images were {theirs['origin']}"),
        (theirs.get("until") is not None, "drawn until decided"),
        (bool(other), f"another {' and '.join(other)}"),
        (bool(earlier.unchecked), "it has no checksums"),
    )
    return next((reason for holds, reason in checks if holds), "")


def _explain_unusable(run: Run, earlier: Run) -> str:
    """Explain why the scores of a run do not count; empty where they do."""
    encoders = [{name: card["fingerprint"] for name, card in each.encoder_cards.items()} for each in (run, earlier)]
    try:
        if earlier.suite.fingerprint != run.suite.fingerprint:
            return "its scores are made with another setting of the suite"
    except ClinometerError as error:
        return " ".join(earlier.directory.without_place(error).split())[:200]
    if encoders[0] != encoders[1]:
        return "other encoders"
    if not earlier.is_scored or outdated(earlier):
        return "not scored, or changed since"
    return "" if are_whole(earlier, (SCORES,)) else "its scores are damaged"


def compare_with_history(rows: pd.DataFrame, history: History) -> pd.DataFrame:
    """Test the numbers of a run against those of earlier ones; all of them are one family.

    Parameters
    ----------
    rows : of the run's scores, with ``at_least`` and ``at_most``, the limits of a change, and ``withheld``.

    Returns
    -------
    Of each row: ``reason``, empty where it is judged; ``change``, ``since``, ``spread`` and ``n_history``; ``p``, and
    ``p_holm``, over all numbers and a year of nights; ``is_beyond``, whether it has changed by more than the limits.
    """
    numbers = [rows.set_index(list(_KEYS)).value, *(_values_of(run, rows) for run in history.runs)]
    table = np.array([each.reindex(pd.MultiIndex.from_frame(rows[list(_KEYS)])).to_numpy(float) for each in numbers])
    records = np.concatenate([table[1:], table[:1]])
    measured = np.isfinite(records).sum(axis=0)
    reasons = np.array([str(reason) for reason in rows.withheld], object)
    few = (reasons == "") & (measured < NEEDED)
    reasons[few] = [
        f"{GateReason.SHORT_HISTORY}: {n - 1} of them have it, and {NEEDED - 1} are needed" for n in measured[few]
    ]
    judged = reasons == ""
    changes = pd.DataFrame(index=rows.index).assign(
        reason=reasons, change=np.nan, since=0, spread=np.nan, n_history=measured - np.isfinite(records[-1]), p=np.nan,
        p_holm=np.nan, is_beyond=False,
    )  # fmt: skip
    if not judged.any():
        return changes
    # two rules may be about one number; the family is of numbers, and a number that stands twice costs nothing
    result = latest_change(np.where(np.isfinite(records), records, np.nan)[:, judged], level=YEARLY / NIGHTS)
    changes.loc[judged, ["change", "spread", "p"]] = np.stack([result.change, result.spread, result.p], axis=1)
    changes.loc[judged, "since"] = result.since
    changes.loc[judged, "p_holm"] = np.minimum(1.0, result.p_family * NIGHTS)
    outside = (changes.change < rows.at_least) | (changes.change > rows.at_most)
    changes["is_beyond"] = judged & (changes.p_holm <= YEARLY) & outside
    return changes


def _values_of(run: Run, rows: pd.DataFrame) -> pd.Series:
    """Return the numbers of an earlier run by what they are of."""
    scores = run.scores
    if REFUSAL in set(rows.metric) - set(scores.metric):  # a model that refused nothing refused none of its prompts
        scores = with_refusals(run, scores, even_none=True)
    scores = scores[scores.metric.isin(rows.metric.unique()) & scores.component.isin(rows.component.unique())]
    return scores.drop_duplicates(list(_KEYS)).set_index(list(_KEYS)).value
