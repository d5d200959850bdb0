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
    voices : who was asked about the images: a reader and a question each, in words.
    said : what each of these answered of a sample by id; nothing of one that was not asked about.
    planted : the probability of each group under the neutral prompt of each concept, where it is known,
        because it was planted: ``planted["firefighter"]["man"]``.
    readings : of the reference model, how its encoder and an independent judge read the same images, by concept:
        ``n``, ``encoder`` and ``judge`` (men counted), ``differ``.
    curves : whatever else the run's scorer stored for figures; the column ``curve`` says what a row is.
    csv_name : the file of scores that lies beside the page; empty when none does.
    stopped_early : whether images were drawn in rounds, until decided.
    departures : where the run departs from its suite's protocol, a mapping of option, paper, run and reason each; None
        of a run that was not put under it.
    registration : when the run was registered and what was changed since, in words; empty of a run that was not.
    unchecked : what is said first of a run without checksums; empty of every other.
    notices : what the whole run lacks, such as concepts without a picture, a sentence each.
    concept_notices : what to know of the pictures of a concept, such as that some repeat others, by its name; of the
        groups' pictures by an empty one.
    notices_in_short : the same of all concepts together, for a page that has no place for each.
    strips : reads the pictures of what images were taken for on the way, by sample id and step; none where none are.
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
    voices: Sequence[str] = ()
    said: Callable[[str], Sequence[str]] = lambda identifier: ()
    planted: Mapping[str, Mapping[str, float]] | None = None
    readings: Mapping[str, Mapping[str, float]] | None = None
    curves: pd.DataFrame | None = None
    csv_name: str = "scores.csv"
    stopped_early: bool = False
    departures: Sequence[Mapping[str, str]] | None = None
    registration: str = ""
    unchecked: str = ""
    notices: Sequence[str] = ()
    concept_notices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notices_in_short: Sequence[str] = ()
    strips: Callable[[], Mapping[str, Mapping[int, bytes]]] = dict
    damage: list[str] = field(default_factory=list)
