"""Measures of a model while it trains: metrics as ``torchmetrics`` takes them, and a callback that audits checkpoints.

The metrics need ``clinometer[torchmetrics]``, and the callback does not. See docs/training.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clinometer.training.callback import AuditCallback, Look

if TYPE_CHECKING:
    from clinometer.training.metrics import McasMetric, ShareMetric, T2iatMetric

__all__ = ["AuditCallback", "Look", "McasMetric", "ShareMetric", "T2iatMetric"]


def __getattr__(name: str) -> Any:
    """Load the metrics, and torch with them, only when one is asked for."""
    if name in __all__:
        from clinometer.training import metrics

        return getattr(metrics, name)
    raise AttributeError(f"module 'clinometer.training' has no attribute {name!r}")
