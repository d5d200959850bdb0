"""How long the default audit takes, and how much of it is the models' own forward passes.

    python benchmarks/audit.py [--out DIR] [any option of clinometer audit]

Runs the command in this process, with the denoiser's, the autoencoder's and the encoder's forward passes timed from
outside. The clock starts before the first import and stops when the report is written.
"""

import time

STARTED = time.perf_counter()

import shutil  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
from collections import Counter  # noqa: E402
from functools import wraps  # noqa: E402

SPENT: Counter[str] = Counter()


def timed(owner: type, method: str, label: str) -> None:
    """Add the time of every outermost call of a method to ``SPENT``."""
    original = getattr(owner, method)

    @wraps(original)
    def wrapper(*args, **kwargs):
        began = time.perf_counter()
        try:
            return original(*args, **kwargs)
        finally:
            SPENT[label] += time.perf_counter() - began

    setattr(owner, method, wrapper)


def main() -> None:
    """Run the audit and print the shares."""
    import clinometer._torch  # noqa: F401 - prepares the environment, so it comes first

    # isort: split
    from diffusers import AutoencoderKL, UNet2DConditionModel
    from transformers import CLIPModel, CLIPTextModel

    timed(UNet2DConditionModel, "forward", "UNet")
    timed(AutoencoderKL, "decode", "VAE")
    timed(CLIPTextModel, "forward", "text encoder of the pipeline")
    timed(CLIPModel, "get_image_features", "CLIP, images")
    timed(CLIPModel, "get_text_features", "CLIP, texts")

    from clinometer.cli.app import app

    out = tempfile.mkdtemp()
    arguments = sys.argv[1:] if "--out" in sys.argv else [*sys.argv[1:], "--out", f"{out}/run"]
    app(["audit", *arguments], standalone_mode=False)
    shutil.rmtree(out)
    total = time.perf_counter() - STARTED
    print(f"\n{'forward passes of':<32}{'seconds':>9}{'share':>8}")
    for label, seconds in SPENT.most_common():
        print(f"{label:<32}{seconds:>9.1f}{seconds / total:>8.1%}")
    models = sum(SPENT.values())
    print(f"{'all models':<32}{models:>9.1f}{models / total:>8.1%}   (at least 85 % wanted)")
    print(f"{'the whole command':<32}{total:>9.1f}           (at most 300 s wanted, on two cores)")


if __name__ == "__main__":
    main()
