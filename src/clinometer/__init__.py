"""clinometer measures how far a text-to-image model leans.

    >>> import clinometer as cm
    >>> cm.__all__  # doctest: +NORMALIZE_WHITESPACE
    ['Run', 'Sweep', 'association_test', 'audit', 'compare', 'export', 'gate', 'import_counts', 'import_images',
    'mitigate', 'model_card', 'open_answers', 'open_run', 'paper_table', 'plan', 'push', 'read_images', 'read_run',
    'register', 'reproduce', 'score_run', 'sweep', 'trace_run', 'write_benchmark', 'write_questions']

``cm.audit(...)`` draws, embeds, scores and reports; ``cm.open_run(path).scores`` is the table of every number.
The formulas alone are in :mod:`clinometer.metrics`; they need no torch.
"""

import logging
import os
from typing import TYPE_CHECKING, Any

# OpenMP reads this once, when torch or whatever brings torch loads it: idle threads that spin take the cores that image
# encoding, other workers and other programs need. Nothing of clinometer can be imported before this line.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# onnxruntime, which diffusers imports wherever it is installed, sends telemetry to Microsoft from 1.30 on, and leaves
# files of it in the working directory.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

logging.getLogger("clinometer").addHandler(logging.NullHandler())  # who wants to hear it adds another

if TYPE_CHECKING:
    from clinometer.api import (
        Run,
        Sweep,
        association_test,
        audit,
        compare,
        export,
        gate,
        import_counts,
        import_images,
        mitigate,
        model_card,
        open_answers,
        open_run,
        paper_table,
        plan,
        push,
        read_images,
        read_run,
        register,
        reproduce,
        score_run,
        sweep,
        trace_run,
        write_benchmark,
        write_questions,
    )

__all__ = [
    "Run",
    "Sweep",
    "association_test",
    "audit",
    "compare",
    "export",
    "gate",
    "import_counts",
    "import_images",
    "mitigate",
    "model_card",
    "open_answers",
    "open_run",
    "paper_table",
    "plan",
    "push",
    "read_images",
    "read_run",
    "register",
    "reproduce",
    "score_run",
    "sweep",
    "trace_run",
    "write_benchmark",
    "write_questions",
]


def __getattr__(name: str) -> Any:
    """Load the audit only when it is asked for: the metrics must import without torch, and at once."""
    if name == "__version__":
        from importlib import metadata

        return metadata.version("clinometer")
    if name in __all__:
        from clinometer import api

        return getattr(api, name)
    raise AttributeError(f"module 'clinometer' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Show what there is, also of what is loaded only when it is asked for."""
    return sorted({*__all__, "__version__", "metrics"})
