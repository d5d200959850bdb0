"""Where the build keeps its intermediate files and where the shipped ones go."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent
CACHE = ROOT / ".cache"
PACKAGE = ROOT.parent / "src" / "clinometer" / "models" / "reference"
PIPELINE = PACKAGE / "pipeline"
CLIP = PACKAGE / "clip"
PLANTED = PACKAGE / "planted.yaml"
CARD = PACKAGE / "card.yaml"
