"""The package of examples/plugin, registered as pip registers it: its modules are importable in all tests."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

PLUGIN = Path(__file__).resolve().parents[1] / "examples/plugin"
PROJECT = tomllib.loads((PLUGIN / "pyproject.toml").read_text("utf-8"))["project"]


def register_example(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Write its metadata into a folder of the path, for as long as the test runs."""
    info = folder / "site" / "clinometer_example-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PROJECT['name']}\nVersion: {PROJECT['version']}\n")
    lines = [
        f"[{group}]\n" + "\n".join(f"{name} = {value}" for name, value in points.items())
        for group, points in PROJECT["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    patch.syspath_prepend(str(info.parent))
