"""Runs: plan, generate, encode, score, all over one directory that holds the truth of the run."""

from clinometer.runs.drawing import generate
from clinometer.runs.encoding import encode
from clinometer.runs.progress import Progress, Silence
from clinometer.runs.score import score
from clinometer.runs.storage import Directory
from clinometer.runs.store import Run, create_run

__all__ = ["Directory", "Progress", "Run", "Silence", "create_run", "encode", "generate", "score"]
