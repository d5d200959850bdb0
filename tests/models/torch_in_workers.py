"""A program whose workers import torch; with a word, one that has imported it, and whose workers start that way."""

import sys

from clinometer.pipeline.engines import local


class TorchImported:
    """Imports torch where the work is done."""

    def open(self):
        def look(unit):
            try:
                from clinometer._torch import torch
            except Exception as error:
                return str(error)
            return torch.__version__

        return look


if __name__ == "__main__":
    if sys.argv[1:]:
        from clinometer._torch import torch  # noqa: F401

        local._may_see_gpus = lambda: sys.argv[1] == "spawned"
    engine = local.LocalEngine(1)
    print([done.result for done in engine.map(TorchImported(), [(0,)])])  # noqa: T201
    engine.close()
