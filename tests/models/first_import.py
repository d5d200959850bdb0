"""What the environment says of idle threads where torch is imported first, by processes of which it is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOTE = """
import os, sys
class Note:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            with open(os.environ["NOTES"], "a") as file:
                print(os.environ.get("OMP_WAIT_POLICY"), file=file)
            if os.environ["TORCH"] != "True":
                raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Note())
"""


def policies(place: Path, command: Sequence[str], *, torch: bool, **environment: str) -> list[str]:
    """Run a program of this environment, in a folder; return what ``OMP_WAIT_POLICY`` was where torch was looked for.

    ``torch`` : whether it is found then.
    """
    (place / "sitecustomize.py").write_text(NOTE)
    (place / "notes").touch()
    changed = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "PYTEST_"))}
    changed |= {"PYTHONPATH": os.pathsep.join([str(place), str(ROOT / "src"), str(ROOT)])}
    changed |= {"NOTES": str(place / "notes"), "TORCH": str(torch)} | environment
    program = Path(sys.executable).with_name(command[0])
    subprocess.run([program, *command[1:]], cwd=place, env=changed, check=False, capture_output=True)
    return (place / "notes").read_text().split()
