"""An audit that its user stops, and the tables that must be the same in the end."""

from __future__ import annotations

from tests.toys import Painter


def table_bytes(run):
    return run.directory.read_bytes("scores.parquet"), run.directory.read_bytes("curves.parquet")


class Stopping(Painter):
    """A painter that the user stops after some images."""

    def __init__(self, after):
        super().__init__()
        self.after = after

    def generate(self, requests):
        for result in super().generate(requests):
            if self.drawn > self.after:
                raise KeyboardInterrupt
            yield result
