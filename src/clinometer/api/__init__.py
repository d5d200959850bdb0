"""What a Python program calls: one function for each command, and the run."""

from typing import TYPE_CHECKING, Any

from clinometer.api.audits import audit, import_counts, import_images, plan_reproduction, register, reproduce, sweep
from clinometer.api.measuring import association_test, check_skin, classify_images, plan, read_images, write_questions
from clinometer.api.results import compare, export, gate, model_card, paper_table, push, write_benchmark
from clinometer.api.runs import (
    open_answers,
    open_run,
    read_run,
    review_registration,
    score_run,
    trace_run,
    verify_run,
)
from clinometer.mitigation import mitigate

if TYPE_CHECKING:
    from clinometer.api.run import Run
    from clinometer.sweeps.sweep import Sweep

__all__ = [
    "Run",
    "Sweep",
    "association_test",
    "audit",
    "check_skin",
    "classify_images",
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
    "plan_reproduction",
    "push",
    "read_images",
    "read_run",
    "register",
    "reproduce",
    "review_registration",
    "score_run",
    "sweep",
    "trace_run",
    "verify_run",
    "write_benchmark",
    "write_questions",
]


def __getattr__(name: str) -> Any:
    """Load the classes only when they are asked for: the command line reads the signatures, and starts at once."""
    if name == "Run":
        from clinometer.api.run import Run

        return Run
    if name == "Sweep":
        from clinometer.sweeps.sweep import Sweep

        return Sweep
    raise AttributeError(f"module 'clinometer.api' has no attribute {name!r}")
