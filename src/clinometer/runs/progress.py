"""Progress of long stages, for listeners; and a model that only fails is stopped."""

from __future__ import annotations

import html
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

from clinometer.errors import ClinometerError, ModelError
from clinometer.models.protocols import GenerationResult
from clinometer.models.weights import describe, in_one_line

if TYPE_CHECKING:
    from clinometer.runs.plan import Sample
    from clinometer.runs.run import Run

LOG: Final = logging.getLogger("clinometer.progress")


class Progress(Protocol):
    """A listener. Stages come one after the other; each starts, advances and finishes."""

    def start(self, stage: str, total: int, done: int) -> None:
        """Begin a stage of ``total`` items, of which ``done`` were there already."""
        ...

    def advance(self, items: int) -> None:
        """Note that some more items are done."""
        ...

    def finish(self) -> None:
        """End the stage."""
        ...

    def note(self, message: str) -> None:
        """Show a message that a user should read."""
        ...


class NoProgress:
    """A listener that says nothing."""

    def start(self, stage: str, total: int, done: int) -> None:
        """Say nothing."""

    def advance(self, items: int) -> None:
        """Say nothing."""

    def finish(self) -> None:
        """Say nothing."""

    def note(self, message: str) -> None:
        """Say nothing."""


class NotebookProgress:
    """A bar below the cell of a notebook, which needs no extension of it; notes are listed under the bar."""

    EVERY: Final = 0.2
    """Seconds between two looks of the bar: a notebook keeps every message that it gets."""

    def __init__(self) -> None:
        self._stage, self._total, self._done = "", 0, 0
        self._began = self._shown = monotonic()
        self._before: list[str] = []
        self._handle: Any = None

    def start(self, stage: str, total: int, done: int) -> None:
        """Show a bar for the stage."""
        self._stage, self._total, self._done, self._began = stage, total, done, monotonic()
        self._show()

    def advance(self, items: int) -> None:
        """Move the bar."""
        self._done += items
        if monotonic() - self._shown >= self.EVERY:
            self._show()

    def finish(self) -> None:
        """Replace the bar by a line."""
        self._before.append(f"{self._stage}: done in {monotonic() - self._began:.1f} s")
        self._stage = ""
        self._show()

    def note(self, message: str) -> None:
        """List what a user should read."""
        self._before.append(message)
        self._show()

    def _show(self) -> None:
        from IPython.display import HTML, display

        lines = [html.escape(line) for line in self._before]
        if self._stage:
            bar = f'<progress max="{max(self._total, 1)}" value="{self._done}"></progress>'
            lines.append(f"{html.escape(self._stage)} {bar} {self._done:,} of {self._total:,}")
        shown = HTML("<br>".join(lines))  # type: ignore[no-untyped-call]
        if self._handle is None:
            self._handle = display(shown, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(shown)
        self._shown = monotonic()


class _Logged:
    """Passes the progress of a stage on to a listener and to the log ``clinometer.progress``."""

    def __init__(self, listener: Progress) -> None:
        self._listener = listener
        self._stage, self._began = "", monotonic()

    def start(self, stage: str, total: int, done: int) -> None:
        LOG.info("%s: %d%s", stage, total, f", {done} already there" if done else "")
        self._stage, self._began = stage, monotonic()
        self._listener.start(stage, total, done)

    def advance(self, items: int) -> None:
        self._listener.advance(items)

    def finish(self) -> None:
        LOG.info("%s: done in %.1f s", self._stage, monotonic() - self._began)
        self._listener.finish()

    def note(self, message: str) -> None:
        LOG.warning("%s", message)
        self._listener.note(message)


def listening(progress: Progress | None) -> Progress:
    """Return a listener for progress: the one that is given, in a notebook a bar, and always the log."""
    if progress is None:
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        progress = NotebookProgress() if hasattr(shell, "kernel") else NoProgress()
    return _Logged(progress)


# --- A model that fails: its errors become one line, and a model that only fails is stopped --------------------------


HOPELESS: Final = (32, 3)
"""A model is stopped that fails so many images in a row, of so many prompts: one prompt may be at fault itself."""

LONGEST_REASON: Final = 4000
"""Characters; the prompt that a server drew instead may be long."""


@contextmanager
def naming_errors(kind: str, name: str, note: str = "; what is finished is kept") -> Iterator[None]:
    """Turn what a model's own code raises into a one-line ``ModelError`` that names the model."""
    try:
        yield
    except ClinometerError:
        raise
    except (Exception, SystemExit) as error:  # whose status would else be the program's own
        raise ModelError.failed(f"{kind} {in_one_line(name, 200)}: it stopped with {describe(error)}{note}") from error


class Failures:
    """Stops a model that fails image after image, such as on a device that is lost or with weights that overflow.

    One image that fails is a gap in the scores. A model that fails them all would leave nothing else. Images that are
    read from files fail each by itself, but not all.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._in_a_row: list[Sample] = []
        self._first_reason: str | None = None
        self._any_lived = False

    def check(self, samples: Sequence[Sample], results: Iterable[GenerationResult]) -> Iterator[GenerationResult]:
        """Yield results as they come, and count those that failed in a row.

        Raises
        ------
        ModelError
            As many in a row have failed as `HOPELESS` says.
        """
        by_id = {sample.id: sample for sample in samples}
        images, prompts = HOPELESS
        for result in results:
            if result.status != "failed":
                self._in_a_row.clear()
                self._any_lived = True
                yield result
                continue
            if self._first_reason is None:
                self._first_reason = in_one_line(result.reason or "it gave no reason", LONGEST_REASON)
            if result.id in by_id and not by_id[result.id].file:
                self._in_a_row.append(by_id[result.id])
                failed_prompts = {sample.prompt for sample in self._in_a_row}
                if len(self._in_a_row) >= images and len(failed_prompts) >= prompts:
                    raise ModelError.failed(
                        f"{self._run.model_card['name']}: {len(self._in_a_row)} images in a row failed, of "
                        f"{len(failed_prompts)} prompts: {result.reason}; fix it and give the same command again"
                    )
            yield result

    def require_one(self, samples: Iterable[Sample]) -> None:
        """Refuse a stage of failures alone: of fewer images or prompts than `HOPELESS` says, or of files.

        Raises
        ------
        ModelError
            All images failed.
        """
        if self._first_reason is None or self._any_lived or not self._run.is_whole:
            return
        stage, of_files = dict[str, int](), False
        for sample in samples:
            stage[sample.id] = sample.part
            of_files = of_files or bool(sample.file)
        rows = self._run.drawn.each(["id", "status"])
        if any(status != "failed" for identifier, status in rows if identifier in stage):
            return
        self._run.drawn.forget_failed_parts(set(stage.values()))
        # a corrected file is another one, and the directory that of a run of the files as they were
        then = f"fix the files, delete {self._run.url}" if of_files else "fix it"
        raise ModelError.failed(
            f"{self._run.model_card['name']}: all {len(stage)} images failed, the first because: "
            f"{self._first_reason}; {then} and give the same command again"
        )

    @contextmanager
    def forget_on_failure(self) -> Iterator[None]:
        """Delete parts that hold nothing but failures when the model is stopped, so that they are drawn again."""
        try:
            yield
        except ModelError:
            self._run.drawn.forget_failed_parts({sample.part for sample in self._in_a_row})
            raise
