"""A program whose workers import torch.

With ``ray``, actors of a cluster that was started before anything of this package was imported; with another word, a
program that has imported torch, and whose workers start that way.
"""

import sys

if __name__ == "__main__" and sys.argv[1:] == ["ray"]:
    import ray

    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=80 * 2**20, log_to_driver=False)

from clinometer.pipeline.engines import dispatch


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
    if sys.argv[1:] in (["copied"], ["spawned"]):
        from clinometer._torch import torch  # noqa: F401

        dispatch._may_see_gpus = lambda: sys.argv[1] == "spawned"
    if sys.argv[1:] == ["ray"]:
        from clinometer.pipeline.engines.ray import RayEngine as Engine
    else:
        Engine = dispatch.LocalEngine
    from tests.models.torch_in_workers import TorchImported  # by a name that another process can import

    engine = Engine(workers=1)
    print([done.result for done in engine.map(TorchImported(), [(0,)])])  # noqa: T201
    engine.close()
