"""What a generator can be asked for besides images from prompts: read from what it holds, not from its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clinometer.errors import ModelError
from clinometer.models.abilities import Denoises, Edits, offers
from clinometer.models.encoders.own_text import OWN, own_text_components


@dataclass(frozen=True)
class Capabilities:
    """What a loaded model can do.

    Attributes
    ----------
    edit : it changes images towards a prompt; needed by suites of study editing.
    classify : it gives access to its denoising errors; needed by suites of study classification.
    text_encoders : the classes of the text encoders that guide it, in the order of its components.
    own_text : the names under which suites of study leaning read those of them that come with a tokenizer.
    prior : it draws in two stages, first an image embedding from the text, then the image from that.
    """

    edit: bool
    classify: bool
    text_encoders: tuple[str, ...]
    own_text: tuple[str, ...]
    prior: bool


def capabilities_of(generator: Any) -> Capabilities:
    """Ask a loaded generator what it can do; nothing is drawn.

    The model is asked by its methods ``editor`` and ``denoiser``: one that it has not, or that raises `ModelError`,
    is something that it cannot do.
    """
    components = dict(getattr(getattr(generator, "pipeline", None), "components", {}))
    encoders = [each for name, each in components.items() if "text_encoder" in name and each is not None]
    return Capabilities(
        edit=offers(generator, Edits) and _gives(generator.editor),
        classify=offers(generator, Denoises) and _gives(generator.denoiser),
        text_encoders=tuple(type(each).__name__ for each in encoders),
        own_text=tuple(f"{OWN}{name}" for name in own_text_components(generator)),
        prior=any(name.split("_")[0] == "prior" for name in components),
    )


def _gives(make: Callable[[], object]) -> bool:
    try:
        make()
    except ModelError:
        return False
    return True
