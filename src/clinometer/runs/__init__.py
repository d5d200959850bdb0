"""Runs: plan, draw and embed, all over one directory that holds the truth of the run. Knows no study."""

from clinometer.runs.drawing import generate
from clinometer.runs.encoding import encode
from clinometer.runs.progress import NoProgress, Progress, listening
from clinometer.runs.run import Run, create_run
from clinometer.runs.storage import Directory

__all__ = ["Directory", "NoProgress", "Progress", "Run", "create_run", "encode", "generate", "listening"]
