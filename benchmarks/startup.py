"""How fast the command answers: ``clinometer --help`` beside a bare Python, and what the metrics import.

python benchmarks/startup.py [--runs N]
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "clinometer --help": [str(Path(sys.executable).parent / "clinometer"), "--help"],
    "import clinometer.metrics": [sys.executable, "-c", "import clinometer.metrics"],
}


def main() -> None:
    """Time the commands in turn, so that a machine whose speed drifts treats them alike."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for run in range(runs + 1):
        for name, command in COMMANDS.items():
            began = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            if run:  # the first round warms the disk cache
                seconds[name].append(time.perf_counter() - began)
    bare = statistics.median(seconds["python -c pass"])
    print(f"{'command':<28}{'median s':>10}{'times bare Python':>20}")
    for name, taken in seconds.items():
        print(f"{name:<28}{statistics.median(taken):>10.3f}{statistics.median(taken) / bare:>20.1f}")
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, clinometer.metrics; print('torch' in sys.modules)"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    print(f"torch is imported by clinometer.metrics: {loaded.stdout.strip()}")


if __name__ == "__main__":
    main()
