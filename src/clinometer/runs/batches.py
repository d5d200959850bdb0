"""How many images a model draws at once: what its run recorded, else what it finds that memory holds."""

from __future__ import annotations

import os

from clinometer.models.abilities import DrawsAtOnce, offers
from clinometer.models.protocols import Generator
from clinometer.runs.failures import named
from clinometer.runs.ledger import RECORD, Ledger
from clinometer.runs.progress import Progress
from clinometer.runs.storage import Directory
from clinometer.suites import Suite


def settle_batch_size(out: str | os.PathLike[str], generator: Generator, suite: Suite, progress: Progress) -> None:
    """Let a generator that can find its batch size do so, before the plan is cut into parts of that size.

    A run that is there already says what it found, so that it goes on with the batches it would have had.
    """
    if not offers(generator, DrawsAtOnce):
        return
    begun = generator.batch_size
    known = _recorded(Directory(out))
    with named("generator", generator.card.name, kept=""):
        longest = max((question.prompt for question in suite.questions()), key=len, default="")
        generator.fit_batch_size(longest, known=known)
    if known is None and generator.batch_size != begun:
        progress.note(f"{generator.batch_size} images a batch: as many as memory holds")


def _recorded(directory: Directory) -> int | None:
    return Ledger(directory).record.get("batch_size") if directory.exists(RECORD) else None
