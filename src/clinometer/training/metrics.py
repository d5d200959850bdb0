"""Measures of a model while it trains, as ``torchmetrics`` takes them: in batches, as a stream, over processes.

All that is linear in the cosines follows from sums of unit vectors, so no embedding is kept, and processes add theirs::

    mean_{x∈X} mean_{a∈A} cos(x, a) = x̄ · ā          x̄ = Σ x̂ / n,   x̂ = x / ‖x‖

Sums are in float64, and every number is what the functions of :mod:`clinometer.metrics` give of all embeddings at once,
to 1e-12. Intervals of a score, p and q need each image: for these audit the checkpoint. See docs/training.md.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from clinometer._torch import torch
from clinometer.errors import InvalidInputError, ModelError
from clinometer.stats.proportion import exact_share

try:
    from torchmetrics import Metric
except ImportError as error:
    raise ModelError.lacks_package("torchmetrics", "clinometer[torchmetrics]") from error

__all__ = ["McasMetric", "ShareMetric", "T2iatMetric"]

Role = Literal["target", "a", "b"]
ROLES: Final = ("target", "a", "b")
Concept = Literal["x", "y"]
Drawn = Literal["neutral", "a", "b"]
DRAWN: Final = ("neutral", "a", "b")


class McasMetric(Metric):
    """MCAS of one concept between two groups, from embeddings of one encoder.

    ``update(embeddings, role)`` takes (n × dim) embeddings of images drawn for the concept (``"target"``) or for a
    group (``"a"``, ``"b"``). ``compute()`` gives ``ii``, ``itp``, ``ita``, ``tt`` (in [−2, 2]), ``image_part``
    (II + ITA, in [−4, 4]) and ``mcas`` (in [−8, 8]); positive leans to A. See :func:`clinometer.metrics.mcas`.

    Parameters
    ----------
    dim : the length of an embedding.
    target_texts, texts_a, texts_b : embeddings of the concept's prompt and of the groups' words, (texts × dim). Without
        them the components that need them are NaN.

    Raises
    ------
    InvalidInputError
        An unknown role; embeddings that are not (n × dim), are not finite, or are zero.
    """

    full_state_update = False
    higher_is_better = None
    images_sum: torch.Tensor
    images_count: torch.Tensor
    target_texts: torch.Tensor
    texts_a: torch.Tensor
    texts_b: torch.Tensor

    def __init__(
        self,
        dim: int,
        *,
        target_texts: torch.Tensor | None = None,
        texts_a: torch.Tensor | None = None,
        texts_b: torch.Tensor | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.dim = dim
        _add_sums(self, "images", len(ROLES), dim)
        for name, texts in (("target_texts", target_texts), ("texts_a", texts_a), ("texts_b", texts_b)):
            mean = torch.full((dim,), torch.nan, dtype=torch.float64)
            if texts is not None:
                mean = _unit_rows(texts, dim, name).mean(dim=0)
            self.register_buffer(name, mean, persistent=False)

    def update(self, embeddings: torch.Tensor, role: Role) -> None:
        """Add images of the concept, or of a group."""
        place = _place(role, ROLES, "role")
        units = _unit_rows(embeddings.detach(), self.dim, "embeddings")
        self.images_sum[place] += units.sum(dim=0)
        self.images_count[place] += len(units)

    def compute(self) -> dict[str, torch.Tensor]:
        """Return each component and their sums; NaN where images or texts are missing."""
        target, a, b = self.images_sum / self.images_count[:, None]  # nothing of nothing is NaN
        parts = {
            "ii": target @ (a - b),
            "itp": self.target_texts @ (a - b),
            "ita": target @ (self.texts_a - self.texts_b),
            "tt": self.target_texts @ (self.texts_a - self.texts_b),
        }
        sums = {"image_part": parts["ii"] + parts["ita"], "mcas": torch.stack(list(parts.values())).sum()}
        return parts | sums


class ShareMetric(Metric):
    """Share of images that are read as group A: nearer, on average, to its words than to those of B.

    ``update(embeddings)`` takes (n × dim) embeddings of images. ``compute()`` gives ``share`` (in [0, 1]), the ends
    ``low`` and ``high`` of its exact interval (Clopper and Pearson), and ``n``. Images count as independent draws. See
    :func:`clinometer.stats.association.nearest_group` and :func:`clinometer.stats.proportion.exact_share`.

    Parameters
    ----------
    words_a, words_b : embeddings of the groups' words, (words × dim).
    confidence : of the interval.

    Raises
    ------
    InvalidInputError
        Embeddings that are not (n × dim), are not finite, or are zero.
    """

    full_state_update = False
    higher_is_better = None
    direction: torch.Tensor
    count_a: torch.Tensor
    count: torch.Tensor

    def __init__(
        self, words_a: torch.Tensor, words_b: torch.Tensor, *, confidence: float = 0.95, **options: Any
    ) -> None:
        super().__init__(**options)
        self.dim, self.confidence = words_a.shape[-1], confidence
        words = [_unit_rows(words_a, self.dim, "words_a"), _unit_rows(words_b, self.dim, "words_b")]
        self.register_buffer("direction", words[0].mean(dim=0) - words[1].mean(dim=0), persistent=False)
        for name in ("count_a", "count"):
            self.add_state(name, torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, embeddings: torch.Tensor) -> None:
        """Count images."""
        units = _unit_rows(embeddings.detach(), self.dim, "embeddings")
        self.count_a += (units @ self.direction > 0).sum()
        self.count += len(units)

    def compute(self) -> dict[str, torch.Tensor]:
        """Return the share of A, its interval and the number of images; NaN without images."""
        share = exact_share(int(self.count_a), int(self.count), confidence=self.confidence)
        numbers = {"share": share.value, "low": share.low, "high": share.high, "n": float(self.count)}
        return {name: torch.tensor(number, dtype=torch.float64) for name, number in numbers.items()}


class T2iatMetric(Metric):
    """S of T2IAT: whether concept X is tied more closely to attribute A, against B, than concept Y is.

    ``update(embeddings, prompts, concept, drawn)`` takes (n × dim) embeddings of images, the number of the prompt of
    each (n,), their concept (``"x"`` or ``"y"``), and whether they were drawn from the prompt as it is (``"neutral"``)
    or with an attribute (``"a"``, ``"b"``). ``compute()`` gives ``statistic`` (S, in [−4, 4]; positive: X is nearer to
    A), ``association_x`` and ``association_y`` (in [−2, 2]), of which it is the difference. Prompts weigh equally; one
    without images of all three kinds is left out. The effect size and p need each image: see
    :func:`clinometer.metrics.differential_association`.

    Parameters
    ----------
    dim : the length of an embedding.
    prompts_x, prompts_y : how many prompts each concept has.

    Raises
    ------
    InvalidInputError
        An unknown concept or kind; a prompt that is not there; embeddings that are not (n × dim), are not finite, or
        are zero.
    """

    full_state_update = False
    higher_is_better = None
    x_sum: torch.Tensor

    def __init__(self, dim: int, *, prompts_x: int, prompts_y: int, **options: Any) -> None:
        super().__init__(**options)
        self.dim, self.prompts = dim, {"x": prompts_x, "y": prompts_y}
        for concept, prompts in self.prompts.items():
            _add_sums(self, concept, len(DRAWN) * prompts, dim)

    def update(self, embeddings: torch.Tensor, prompts: torch.Tensor, concept: Concept, drawn: Drawn) -> None:
        """Add images of some prompts of a concept."""
        count = self.prompts[("x", "y")[_place(concept, ("x", "y"), "concept")]]
        units, numbers = _unit_rows(embeddings.detach(), self.dim, "embeddings"), prompts.to(self.x_sum.device)
        if numbers.shape != (len(units),) or ((numbers < 0) | (numbers >= count)).any():
            raise InvalidInputError.out_of_range(
                f"expected a number from 0 to {count - 1} for each of {len(units)} images, found {prompts.tolist()}",
                field="prompts",
            )
        rows = _place(drawn, DRAWN, "drawn") * count + numbers
        getattr(self, f"{concept}_sum").index_add_(0, rows, units)
        getattr(self, f"{concept}_count").index_add_(0, rows, torch.ones_like(rows, dtype=torch.float64))

    def compute(self) -> dict[str, torch.Tensor]:
        """Return S and the two associations; NaN where no prompt of a concept has images of all three kinds."""
        associations = {}
        for concept in ("x", "y"):
            counts = getattr(self, f"{concept}_count").reshape(len(DRAWN), -1)
            sums = getattr(self, f"{concept}_sum").reshape(len(DRAWN), -1, self.dim)
            there = (counts > 0).all(dim=0)
            neutral, a, b = (sums[:, there] / counts[:, there, None]).mean(dim=1)
            associations[f"association_{concept}"] = neutral @ (a - b)
        statistic = associations["association_x"] - associations["association_y"]
        return {"statistic": statistic, **associations}


def _add_sums(metric: Metric, name: str, rows: int, dim: int) -> None:
    """Add the states of sums of unit vectors, and of how many are in each."""
    metric.add_state(f"{name}_sum", torch.zeros(rows, dim, dtype=torch.float64), dist_reduce_fx="sum")
    metric.add_state(f"{name}_count", torch.zeros(rows, dtype=torch.float64), dist_reduce_fx="sum")


def _place(word: str, words: tuple[str, ...], field: str) -> int:
    if word not in words:
        raise InvalidInputError.expected_one_of(words, word, field=field)
    return words.index(word)


def _unit_rows(x: torch.Tensor, dim: int, name: str) -> torch.Tensor:
    """Return rows of length 1, in float64."""
    if x.ndim != 2 or x.shape[1] != dim:
        raise InvalidInputError.expected_shape(f"embeddings (n × {dim})", x, field=name)
    rows = x.to(torch.float64)
    largest = rows.abs().amax(dim=1, keepdim=True)
    if not torch.isfinite(largest).all() or not largest.all():
        row = int((~torch.isfinite(largest) | (largest == 0)).flatten().to(torch.int8).argmax())
        raise InvalidInputError.not_finite(
            f"row {row} is zero, or holds NaN or infinity; leave the image out", field=name
        )
    rows = rows / largest
    lengths: torch.Tensor = rows.norm(dim=1, keepdim=True)
    return rows / lengths
