"""One training loop for the three networks: AdamW, warmup–stable–decay, a moving average, checkpoints that
resume.
"""

from __future__ import annotations

import copy
import os
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

from reference.paths import CACHE

Loss = Callable[[], torch.Tensor]


@dataclass(frozen=True)
class Schedule:
    """A training run: legs of warmup, flat rate, and a linear fall to zero over the last `decay` of the leg.

    The rate is flat until then, so that `steps` can still be changed while a run is in its flat part. A leg starts
    at 0 and at each step of `restarts`, from where the one before it ended (WSD-S: Wen et al. 2024,
    arXiv:2410.05192).
    """

    steps: int
    learning_rate: float
    restarts: tuple[int, ...] = ()
    warmup: int = 200
    decay: float = 0.3
    weight_decay: float = 0.01
    ema: float = 0.999
    clip_norm: float = 1.0
    seed: int = 0

    def rate(self, step: int) -> float:
        ends = (*self.restarts, self.steps)
        leg = min(bisect_right(ends, step), len(ends) - 1)
        start, end = (0, *ends)[leg], ends[leg]
        decay_steps = max(1, round((end - start) * self.decay))
        left = max(0.0, (end - step) / decay_steps)
        return self.learning_rate * min(1.0, (step - start + 1) / self.warmup, left)


def device_of(name: str) -> torch.device:
    """`auto` is the GPU when there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def _save(path: Path, state: dict[str, object]) -> None:
    """Writes beside and renames, so that a kill leaves the previous checkpoint whole."""
    beside = path.with_suffix(".tmp")
    torch.save(state, beside)
    os.replace(beside, path)


class Run:
    """Trains `model` in place; `average` holds the moving average of its weights, which is what ships."""

    def __init__(self, name: str, model: torch.nn.Module, schedule: Schedule, device: torch.device) -> None:
        self.name, self.schedule, self.device = name, schedule, device
        self.model = model.to(device)
        self.average = copy.deepcopy(self.model).requires_grad_(False).eval()
        self._trainable = [p for p in model.parameters() if p.requires_grad]
        self._pool: ThreadPoolExecutor | None = None
        self.optimizer = torch.optim.AdamW(
            self._trainable, lr=schedule.learning_rate, weight_decay=schedule.weight_decay, betas=(0.9, 0.99)
        )
        self.step = 0
        self.seconds = 0.0
        self.path = CACHE / f"{name}.checkpoint.pt"
        if self.path.exists():
            self._resume()

    @property
    def finished(self) -> bool:
        return self.step >= self.schedule.steps

    def _resume(self) -> None:
        state = torch.load(self.path, map_location=self.device, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds = int(state["step"]), float(state["seconds"])

    def _checkpoint(self) -> None:
        CACHE.mkdir(parents=True, exist_ok=True)
        state = {"model": self.model.state_dict(), "average": self.average.state_dict()}
        _save(
            self.path,
            state | {"optimizer": self.optimizer.state_dict(), "step": self.step, "seconds": self.seconds},
        )

    def _shard_gradients(self, loss_of_shard: Loss) -> tuple[float, tuple[torch.Tensor, ...]]:
        loss = loss_of_shard()
        return float(loss.detach()), torch.autograd.grad(loss, self._trainable, allow_unused=True)

    def _backward(self, shards: Sequence[Loss]) -> float:
        """Sets the gradients of the mean loss of the shards, each run in a thread of its own, and returns
        that loss.
        """
        if len(shards) == 1:
            results = [self._shard_gradients(shards[0])]
        else:
            results = list(self._workers(len(shards)).map(self._shard_gradients, shards))
        for parameter, *parts in zip(self._trainable, *(grads for _, grads in results), strict=True):
            known = [part for part in parts if part is not None]
            parameter.grad = torch.stack(known).mean(0) if len(known) > 1 else (known[0] if known else None)
        return sum(loss for loss, _ in results) / len(results)

    def _workers(self, n: int) -> ThreadPoolExecutor:
        # Inside a small network an operation is too short to be worth splitting over cores; halves of the
        # batch are not.
        if self._pool is None:
            self._pool = ThreadPoolExecutor(n, initializer=torch.set_num_threads, initargs=(1,))
        return self._pool

    def _update(self) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.schedule.rate(self.step)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.schedule.clip_norm)
        self.optimizer.step()
        # Early averages follow closely, late ones smooth: the usual ramp (1 + step) / (10 + step).
        keep = min(self.schedule.ema, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), list(self.model.parameters()), 1 - keep)

    def fit(
        self,
        losses_of: Callable[[torch.Generator], Sequence[Loss]],
        every: int = 500,
        monitor: Callable[[Run], None] | None = None,
    ) -> None:
        """Runs to the last step. `losses_of` draws its batch from a generator seeded by (seed, step) alone
        and returns its shards.

        That makes a resumed run the same as an uninterrupted one.
        """
        total, started = 0.0, time.monotonic()
        while not self.finished:
            generator = torch.Generator().manual_seed(self.schedule.seed * 10_000_019 + self.step)
            torch.manual_seed(self.schedule.seed * 10_000_019 + self.step)
            total += self._backward(losses_of(generator))
            self._update()
            self.step += 1
            if self.step % 100 == 0:
                elapsed = time.monotonic() - started
                self.seconds += elapsed
                print(
                    f"{self.name} {self.step}/{self.schedule.steps} loss {total / 100:.5f} "
                    f"{100 / elapsed:.2f} steps/s {self.seconds / 60:.1f} min",
                    flush=True,
                )
                total, started = 0.0, time.monotonic()
            if self.step % every == 0 or self.finished:
                self._checkpoint()
                if monitor is not None:
                    monitor(self)
                started = time.monotonic()
