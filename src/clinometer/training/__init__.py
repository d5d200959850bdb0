"""Measures of a model while it trains: metrics as ``torchmetrics`` takes them, and a callback that audits checkpoints.

The callback audits every few steps, in a process of its own, and says when training should stop. Each audit, a look,
draws a few images with noise of its own and is checked against a policy. The gate of a model that keeps all limits is
broken with a chance of at most ``GATE_LEVEL``, whatever came before. So bets on broken gates make a fortune that does
not grow on average while every checkpoint keeps its limits. It ever reaches 1/α with a chance of at most α, however
many looks there are (:mod:`clinometer.stats.sequential`).

The metrics need ``clinometer[torchmetrics]``, and the callback does not. See docs/training.md.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from clinometer._messages import shortened
from clinometer._secrets import masked
from clinometer.errors import InvalidInputError
from clinometer.gates import Policy, gate, load_policy
from clinometer.runs.run import Run
from clinometer.stats.sequential import e_value

if TYPE_CHECKING:
    from clinometer.training.metrics import McasMetric, ShareMetric, T2iatMetric


__all__ = ["AuditCallback", "Look", "McasMetric", "ShareMetric", "T2iatMetric"]


def __getattr__(name: str) -> Any:
    """Load the metrics, and torch with them, only when one is asked for."""
    if name in __all__:
        from clinometer.training import metrics

        return getattr(metrics, name)
    raise AttributeError(f"module 'clinometer.training' has no attribute {name!r}")


GATE_LEVEL: Final = 0.05
"""The chance that the gate of a model that keeps all limits is broken: see docs/gates.md."""

ALPHA: Final = 0.05
"""The chance that the training of such a model is ever told to stop."""

TIMEOUT: Final = 3600.0
LOOKS: Final = "looks.json"
_DISTRIBUTED: Final = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Variables of a process that trains along with others; an audit must not see them."""


@dataclass(frozen=True)
class Look:
    """An audit of one checkpoint.

    Attributes
    ----------
    step : of the training.
    outcome : of its gate: ``holds``, ``broken`` or ``undecided``; empty without a policy, or where it failed.
    problem : why there is no outcome; empty where nothing went wrong.
    """

    step: int
    outcome: str = ""
    problem: str = ""


class AuditCallback:
    """Audit a model every ``every`` steps, log the numbers, and say whether the training should stop.

    ``on_step_end(step, model)`` is called after each step. At steps that are due the model is audited by ``clinometer
    audit`` in a process of its own, so that neither its memory nor its random numbers are the training's. Runs lie in
    ``out/step-000100``. An audit that fails stops no training: it is logged once, and kept in :attr:`looks`.

    Looks are recorded in ``out/looks.json``, and a training that is resumed goes on from there: steps with a look are
    skipped.

    Parameters
    ----------
    out : a folder for runs and logs.
    every : steps from one look to the next.
    suite, images, encoder : of the audits; few images suffice, as looks add up.
    policy : rules as of :func:`clinometer.gate`, a file or a mapping, each a limit of the run itself. Without it
        there are no gates, and ``should_stop`` stays False.
    options : further options of ``clinometer audit``, such as ``("--device=cuda:1", "--steps=10")``.
    log_to : trackers that the audit itself sends to, as ``--log-to``.
    accelerator : an ``accelerate.Accelerator``: its trackers get the numbers; of its processes, all of which call
        ``on_step_end``, the main one audits, and all learn whether to stop.
    background : whether training goes on meanwhile. A look that is due while one is still running is left out.
    seed : of the first step's images; that of a step is ``seed + step``, for each look must draw noise of its own.
    timeout : seconds after which an audit is given up.

    Raises
    ------
    InvalidInputError
        A number of steps below 1, or ``looks.json`` is not what was written.
    GateError
        A policy that cannot be read, or whose rules need another run.
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        *,
        every: int,
        suite: str = "mcas",
        images: int = 10,
        encoder: str | None = None,
        policy: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        options: Sequence[str] = (),
        log_to: Sequence[str] = (),
        accelerator: Any = None,
        background: bool = False,
        seed: int = 0,
        timeout: float = TIMEOUT,
    ) -> None:
        if every < 1:
            raise InvalidInputError.out_of_range(f"found {every}, expected 1 or more", field="every")
        self.out, self.every, self.seed, self.timeout = Path(out), every, seed, timeout
        self.policy = _policy_of(policy)
        self.accelerator, self.background = accelerator, background
        self._words = [f"--suite={suite}", f"--images={images}", *options]
        self._words += [f"--encoder={encoder}"] if encoder is not None else []
        self._words += [f"--log-to={tracker}" for tracker in log_to]
        self._running: tuple[int, subprocess.Popen[bytes], Any, float] | None = None
        self._stop, self._warned = False, False
        self.looks = self._read_looks()

    @property
    def evidence(self) -> float:
        """The e-value against a model that keeps its limits at every look; 20 or more has a chance of at most 5 %."""
        return _evidence_of(self.looks)

    @property
    def should_stop(self) -> bool:
        """Whether the looks show that some checkpoint was beyond the policy's limits; the same in every process."""
        return self._stop

    def on_step_end(self, step: int, model: Any) -> bool:
        """Audit the model if a look is due; return whether the training should stop.

        ``model`` : the folder or file that it was saved to, as ``--model`` of an audit; or a pipeline, which is saved
        by its ``save_pretrained`` for as long as the audit takes. In training of several processes, all call it.
        """
        if self._is_main:
            self._collect(wait=False)
            is_due = step > 0 and step % self.every == 0 and self._running is None
            if is_due and not any(look.step == step for look in self.looks):
                self._start(step, model)
                self._collect(wait=not self.background)
        if step % self.every == 0 or self._is_alone:
            self._agree()
        return self._stop

    def finish(self) -> bool:
        """Wait for an audit that is still running; return whether the training should have stopped."""
        if self._is_main:
            self._collect(wait=True)
        self._agree()
        return self._stop

    @property
    def _is_main(self) -> bool:
        return self.accelerator is None or bool(self.accelerator.is_main_process)

    @property
    def _is_alone(self) -> bool:
        return self.accelerator is None or self.accelerator.num_processes == 1

    def _agree(self) -> None:
        """Share the main process's finding with all: one that stops alone would leave the others waiting."""
        self._stop = self._stop or _evidence_of(self.looks) >= 1 / ALPHA
        if not self._is_alone:
            from accelerate.utils import broadcast_object_list

            (self._stop,) = broadcast_object_list([self._stop])

    def _start(self, step: int, model: Any) -> None:
        """Start the audit of a checkpoint."""
        saved = None
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            if not isinstance(model, str | os.PathLike):
                saved = tempfile.TemporaryDirectory(dir=self.out, ignore_cleanup_errors=True)
                model.save_pretrained(saved.name)
            place = os.fspath(model) if saved is None else saved.name
            words = [f"--model={place}", f"--out={self._place(step)}", f"--seed={self.seed + step}", *self._words]
            source = str(Path(__file__).parents[2])
            variables = {name: value for name, value in os.environ.items() if name not in _DISTRIBUTED}
            variables["PYTHONPATH"] = os.pathsep.join(filter(None, (source, variables.get("PYTHONPATH"))))
            with (self.out / f"step-{step:06d}.log").open("wb") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "clinometer", "audit", *words], stdin=subprocess.DEVNULL, stdout=log,
                    stderr=log, env=variables, start_new_session=True,  # an interrupt is for the training
                )  # fmt: skip
        except Exception as error:  # whatever a pipeline raises when it is saved
            if saved is not None:
                saved.cleanup()
            self._keep(Look(step, problem=f"it could not start: {type(error).__name__}: {error}"))
            return
        weakref.finalize(self, process.kill)  # a training that ends leaves no audit behind
        self._running = step, process, saved, time.monotonic() + self.timeout

    def _collect(self, *, wait: bool) -> None:
        """Collect the audit that has ended, or wait for it."""
        if self._running is None:
            return
        step, process, saved, deadline = self._running
        left = deadline - time.monotonic()
        if not wait and left > 0 and process.poll() is None:
            return
        self._running = None
        try:
            status = process.wait(max(left, 0.0))
            problem = ""
            if status:
                lines = (self.out / f"step-{step:06d}.log").read_text("utf-8", "replace").strip().splitlines()
                problem = f"status {status}: {shortened(lines[-1], 300) if lines else 'it said nothing'}"
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            problem = f"it took more than {self.timeout:g} seconds"
        if saved is not None:
            saved.cleanup()
        self._keep(Look(step, problem=problem) if problem else self._judge(step))

    def _judge(self, step: int) -> Look:
        """Test a finished run against the policy, and log its numbers."""
        try:
            run = Run(self._place(step))
            outcome = "" if self.policy is None else gate(run, self.policy, source="policy").outcome.value
            if self.accelerator is not None:
                from clinometer.tracking.content import numbers_of

                self.accelerator.log({f"clinometer/{name}": x for name, x in numbers_of(run).items()}, step=step)
        except Exception as error:  # a tracker may raise anything
            return Look(step, problem=f"{type(error).__name__}: {error}")
        return Look(step, outcome)

    def _keep(self, look: Look) -> None:
        """Add a look to those that there are, and say once what went wrong."""
        look = Look(look.step, look.outcome, masked(" ".join(look.problem.split())))
        self.looks.append(look)
        if look.problem and not self._warned:
            self._warned = True
            logging.getLogger("clinometer").warning(
                "the audit of step %d failed, and training goes on: %s; further failures are in %s",
                look.step, look.problem, self.out / LOOKS,
            )  # fmt: skip
        try:
            written = self.out / f".{LOOKS}"
            written.write_text(json.dumps([asdict(each) for each in self.looks], indent=1) + "\n", encoding="utf-8")
            written.replace(self.out / LOOKS)
        except OSError as error:
            logging.getLogger("clinometer").warning("%s could not be written: %s", self.out / LOOKS, error.strerror)

    def _read_looks(self) -> list[Look]:
        """Return the looks of a training that is resumed."""
        place = self.out / LOOKS
        if not place.exists():
            return []
        try:
            looks = [
                Look(int(each["step"]), str(each["outcome"]), str(each["problem"]))
                for each in json.loads(place.read_bytes())
            ]
        except (ValueError, TypeError, KeyError, OSError) as error:
            raise InvalidInputError.malformed(
                f"{place}: found no list of looks ({error}); remove it to start over"
            ) from error
        # evidence that once sufficed still does, whatever later looks were like
        self._stop = any(_evidence_of(looks[:n]) >= 1 / ALPHA for n in range(1, len(looks) + 1))
        return looks

    def _place(self, step: int) -> Path:
        return self.out / f"step-{step:06d}"


def _evidence_of(looks: Sequence[Look]) -> float:
    """Return the fortune of bets that gates are broken more often than those of a model that keeps its limits."""
    broken = [float(look.outcome == "broken") for look in looks if look.outcome]
    return e_value(np.array(broken), GATE_LEVEL, low=0.0, high=1.0, alternative="greater")


def _policy_of(policy: str | os.PathLike[str] | Mapping[str, Any] | None) -> Policy | None:
    """Read a policy, whose rules must be limits of a run itself."""
    if policy is None:
        return None
    read = load_policy(policy)
    if read.needs_baseline or read.needs_history:
        raise InvalidInputError.unsupported(
            "a rule is about a difference or against a history, and a look is one run; give limits of its numbers",
            field="policy",
        )
    return read
