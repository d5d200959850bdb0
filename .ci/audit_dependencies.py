#!/usr/bin/env python3
"""Ask pip-audit for known vulnerabilities of what is installed: audit_dependencies.py PIP_AUDIT [OPTION …].

It exits with 0 where none is known, with 1 where some are, and with 3 where nobody could say: the service that knows
them was not reached, or it knows hardly any of the packages, as a mirror does. pip-audit itself passes then.
"""

import json
import subprocess
import sys

KNOWN, UNKNOWN = 1, 3
MOST_SKIPPED = 0.1
"""Share of packages that nobody need know: this one, and builds of PyTorch for one kind of machine."""


def judge(output: str, error: str) -> tuple[int, list[str]]:
    """The exit status, and lines that say why, of what pip-audit wrote."""
    try:
        packages = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = (error.strip().splitlines() or ["it said nothing"])[-1]
        return UNKNOWN, [f"the service that knows vulnerabilities was not reached, so nothing is known: {last[:300]}"]
    skipped = [each["name"] for each in packages if "skip_reason" in each]
    found = [
        f"{each['name']} {each['version']}: {bug['id']}, fixed in {', '.join(bug['fix_versions']) or 'no version'}"
        for each in packages
        for bug in each.get("vulns", ())
    ]
    if found:
        return KNOWN, found
    if not packages or len(skipped) > MOST_SKIPPED * len(packages):
        return UNKNOWN, [
            f"the service that was reached knows {len(packages) - len(skipped)} of {len(packages)} packages, so "
            "nothing is known of the rest; try again where pypi.org is reached"
        ]
    return 0, [f"no vulnerability is known of {len(packages) - len(skipped)} packages; not asked: {', '.join(skipped)}"]


if __name__ == "__main__":
    command = [*sys.argv[1:], "--format", "json", "--progress-spinner", "off"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    status, lines = judge(asked.stdout, asked.stderr)
    print(*(f"audit-dependencies: {line}" for line in lines), sep="\n", file=sys.stderr)
    sys.exit(status)
