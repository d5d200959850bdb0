"""Whether what was loaded is whole: no weights that its library made up, no tokenizer without its vocabulary.

What a file lacks, transformers fills with random numbers, other ones at every start, and says so in a log alone.
diffusers leaves such weights without values. A tokenizer whose vocabulary is missing is made empty, and reads every
text alike.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import transformers

from clinometer._messages import first_and_more
from clinometer._torch import missing_weights_told, torch
from clinometer.errors import ModelError

NEVER_READ = ("logit_scale", "logit_bias", "mask_token")
"""Weights of training alone: features and states are computed without them."""

TEXT_ALONE = (*NEVER_READ, "pooler", "lm_head", "visual", "vision_tower", "vision_model", "multi_modal_projector")
"""What is not read either where a language model serves as a text encoder; some repositories leave it out."""


def require_weights(name: str, missing: Iterable[str], unread: tuple[str, ...]) -> None:
    """Refuse a model that lacks weights, but for those of its parts that nobody reads.

    Parameters
    ----------
    missing : names of weights, as transformers reports them: without those that it ties or leaves out itself.
    unread : names of modules or weights that may be missing.
    """
    may_be_missing = re.compile(rf"(^|\.)({'|'.join(unread)})(\.|$)")
    needed = sorted(weight for weight in missing if not may_be_missing.search(weight))
    if needed:
        raise ModelError(f"{name}: it lacks weights ({first_and_more(needed)}); download it anew")


def require_values(name: str, pipeline: Any, way_out: str) -> None:
    """Refuse a pipeline of which some weights have no values: they are on the meta device, and nothing fills them."""
    for component, part in pipeline.components.items():
        if not isinstance(part, torch.nn.Module) or any(hasattr(module, "_hf_hook") for module in part.modules()):
            continue  # what accelerate shares out over devices waits elsewhere
        missing = [weight for weight, values in part.named_parameters() if values.is_meta]
        if missing:
            raise ModelError(f"{name}: it lacks weights of {component} ({first_and_more(missing)}); {way_out}")


@contextmanager
def whole_components(name: str) -> Iterator[None]:
    """Refuse a pipeline's transformers components that lack weights, while diffusers loads them."""

    def require_whole(source: str, missing: Collection[str]) -> None:
        component = Path(source).name
        unread = TEXT_ALONE if "text_encoder" in component else NEVER_READ
        require_weights(f"{name}/{component}", missing, unread)

    with missing_weights_told(require_whole):
        yield


def require_vocabularies(name: str, pipeline: Any) -> None:
    """Refuse a pipeline of which a tokenizer has no vocabulary."""
    for component, part in pipeline.components.items():
        tokenizer = getattr(part, "tokenizer", part)  # a processor has one
        if isinstance(tokenizer, transformers.PreTrainedTokenizerBase):
            require_vocabulary(f"{name}/{component}", tokenizer)


def require_vocabulary(name: str, tokenizer: Any) -> None:
    """Refuse a tokenizer that knows no letter: it was made without its vocabulary, and every text is alike to it."""
    beside = {*tokenizer.all_special_tokens, *tokenizer.get_added_vocab()}
    if not any(any(map(str.isalnum, str(token))) for token in tokenizer.get_vocab() if token not in beside):
        raise ModelError(
            f"{name}: the tokenizer has no vocabulary, and every text would be alike to it; expected tokenizer.json "
            "or what its library saves instead; download it anew"
        )
