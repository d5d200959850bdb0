"""What a report is made from: a plain, read-only view of a finished run.

The report reads this and nothing else. It sorts, filters, counts rows and formats; every estimate, interval,
curve and verdict in it was computed when the run was scored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from clinometer.suites import Suite


@dataclass(frozen=True)
class Curve:
    """A smooth curve of one number on another, with its band, as it was stored with the scores.

    Attributes
    ----------
    x, y, low, high : the curve and its 95 % band, in rising ``x``.
    left_out : concepts that the fit did not use, because their value is unstable or undefined.
    method : one line on how it was fitted.
    reason : why there is no curve; empty when there is one.
    """

    x: Sequence[float] = ()
    y: Sequence[float] = ()
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    left_out: Sequence[str] = ()
    method: str = ""
    reason: str = ""


@dataclass(frozen=True)
class ReportInput:
    """Everything one page shows.

    Attributes
    ----------
    title : name of the audit.
    suite : what was asked.
    model_card : the generator's card as a mapping: name, family, revision, weights_sha256, settings, notes.
    encoder_cards : the same for each encoder, by the name used in ``scores.encoder``.
    settings : how the run was made: ``seed``, ``images``, ``created``, ``versions``, …; shown as it is.
    scores : one row a ``Score`` (see ``clinometer.metrics.records``), with one more column ``verdict``.
    samples : a row an image: id, prompt, concept, role ("target" or "attribute"), group, category, seed, source,
        strength, status, reason, seconds, flagged. Texts that many rows share may be categories.
    image : PNG bytes of a sample by id; ``None`` when there are none.
    planted : the probability of each group under the neutral prompt of each concept, where it is known,
        because it was planted: ``planted["firefighter"]["man"]``.
    readings : of the reference model, how its encoder and an independent judge read the same images, by concept:
        ``n``, ``encoder`` and ``judge`` (men counted), ``differ``.
    curve : bias amplification on diffusion bias.
    curves : whatever else the run's scorer stored for figures; the column ``curve`` says what a row is.
    csv_name : the file of scores that lies beside the page; empty when none does.
    stopped_early : whether images were drawn in rounds, until decided.
    departures : where the run departs from its suite's protocol, a mapping of option, paper, run and reason each; None
        of a run that was not put under it.
    unchecked : what is said first of a run without checksums; empty of every other.
    notices : what concepts have no picture, and which pictures are another one again, a sentence each.
    damage : what of the run is missing or damaged, a line each; those of images are added as they are read.
    """

    title: str
    suite: Suite
    model_card: Mapping[str, Any]
    encoder_cards: Mapping[str, Mapping[str, Any]]
    settings: Mapping[str, Any]
    scores: pd.DataFrame
    samples: pd.DataFrame
    image: Callable[[str], bytes | None]
    planted: Mapping[str, Mapping[str, float]] | None = None
    readings: Mapping[str, Mapping[str, float]] | None = None
    curve: Curve = field(default_factory=Curve)
    curves: pd.DataFrame | None = None
    csv_name: str = "scores.csv"
    stopped_early: bool = False
    departures: Sequence[Mapping[str, str]] | None = None
    unchecked: str = ""
    notices: Sequence[str] = ()
    damage: list[str] = field(default_factory=list)
