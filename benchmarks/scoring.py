"""How fast associations are scored, as ratios within one run.

Two bars, for 1,000,000 × 512 float32 targets and two attribute sets of 1,000:

- at most 2 times one bare read of the matrix by all cores (``torch.sum`` of it);
- at least 100 times less than all pairwise cosines (targets normalised, one matrix product with 2,000 attributes).

    python benchmarks/scoring.py                  needs 3 GB of memory
    python benchmarks/scoring.py --rows 200000    for a smaller machine: the ratios hold, below it less so

Beside the seconds stand those of the processor, of all cores together: on a machine with other work they vary less. The
bars are for the seconds of a quiet one.

Pairwise cosines are timed on a tenth of the rows and multiplied: they take minutes, and their time is linear in rows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from time import perf_counter, process_time

import numpy as np
import torch

from clinometer.metrics import association_scores

READ_BAR, PAIRWISE_BAR = 2.0, 100.0
PAIRWISE_SHARE = 10
_ROWS_AT_ONCE = 4096


def best(run: Callable[[], object], repeats: int) -> np.ndarray:
    """Least of several times, by the clock and of the processor: what the machine can do when nothing disturbs it."""
    times = []
    for _ in range(repeats):
        start = np.array([perf_counter(), process_time()])
        run()
        times.append(np.array([perf_counter(), process_time()]) - start)
    return np.asarray(np.min(times, axis=0))


def row(name: str, times: np.ndarray, ratios: np.ndarray | None = None, bar: str = "", of: str = "") -> str:
    """A line of the table: by the clock, then of the processor."""
    compared = [f"{each:10.3g}" for each in ratios] if ratios is not None else [" " * 10] * 2
    return f"{name:34}{times[0]:10.3f}{compared[0]}{times[1]:12.3f}{compared[1]}{bar:>10}   {of}".rstrip()


def random_rows(rows: int, dim: int) -> np.ndarray:
    """Normal float32 numbers, made without a second copy."""
    return np.random.default_rng(0).standard_normal((rows, dim), dtype=np.float32)


def pairwise(targets: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The definition: every cosine of every target, then two means."""
    attributes = torch.nn.functional.normalize(torch.cat([a, b]))
    scores = []
    for rows in targets.split(_ROWS_AT_ONCE):
        cosines = torch.nn.functional.normalize(rows) @ attributes.T
        scores.append(cosines[:, : len(a)].mean(dim=1) - cosines[:, len(a) :].mean(dim=1))
    return torch.cat(scores)


def main() -> int:
    """Measure, print a table, and fail if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--attributes", type=int, default=1000, help="in each of the two sets")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()

    targets = random_rows(options.rows, options.dim)
    a, b = np.split(random_rows(2 * options.attributes, options.dim), 2)
    tensors = [torch.from_numpy(x) for x in (targets, a, b)]
    some = tensors[0][: max(options.rows // PAIRWISE_SHARE, 1)]

    read = best(tensors[0].sum, options.repeats)
    score = best(lambda: association_scores(targets, a, b), options.repeats)
    definition = best(lambda: pairwise(some, *tensors[1:]), 1) * options.rows / len(some)
    error = np.abs(association_scores(some.numpy(), a, b) - pairwise(some, *tensors[1:]).numpy()).max()

    sizes = f"{options.rows:,} × {options.dim} float32, two sets of {options.attributes:,}"
    print(f"{sizes}, {torch.get_num_threads()} threads")
    print(f"{'':34}{'seconds':>10}{'ratio':>10}{'CPU seconds':>12}{'ratio':>10}{'bar':>10}")
    print(row("one bare read (torch.sum)", read))
    print(row("association_scores", score, score / read, "≤ 2", "of the read"))
    print(row("all pairwise cosines (torch)", definition, definition / score, "≥ 100", "of the scores"))
    print(f"largest difference between the two: {error:.1e}")
    return 0 if score[0] <= READ_BAR * read[0] and definition[0] >= PAIRWISE_BAR * score[0] else 1


if __name__ == "__main__":
    sys.exit(main())
