"""``python -m clinometer`` is the command ``clinometer``."""

from clinometer.cli import main

main()
