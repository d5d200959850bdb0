"""A run ten times as large: pages take as long and as much memory."""

import json
import subprocess
import sys

import pytest

from benchmarks.browse import make_run
from tests.docs.pages import ROOT

pytestmark = [pytest.mark.thorough, pytest.mark.slow]


def looked_at(place, images):
    """Seconds and memory of a process that opens a made-up run, which another one has read before."""
    make_run(place / "runs" / "large", images, 50)
    for how in ("reading", "looking"):
        places = str(place / "runs"), str(place / "cache")
        words = ["benchmarks/browse.py", "--images", str(images), "--visit", *places, how]
        said = subprocess.run([sys.executable, *words], check=True, cwd=ROOT, capture_output=True, text=True).stdout
        yield json.loads(said)


def test_memory_and_time_do_not_grow_with_images(tmp_path):
    small, large = (list(looked_at(tmp_path / str(images), images)) for images in (4_000, 40_000))
    for one, ten in zip(small, large, strict=True):
        grown = ten["peak memory after, MiB"] - one["peak memory after, MiB"]
        assert grown < 40  # a part is ten thousand images here, and 4,000 of them are less
    opened = large[1]
    assert opened["explorer, first page"] < 1
    assert opened["every image, least certain first"] < 1
