"""What a file in the working directory may set: a folder that somebody sends must neither take a key nor run code.

A ``clinometer.toml`` of the folder sets what is harmless. All else it sets only where the user has allowed that very
file, as direnv does: its place and the hash of its content are kept in the user's own directory. See decision 73.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import typer

from clinometer._messages import first_and_more
from clinometer.errors import InvalidInputError

HARMLESS: Final = frozenset(
    """
    suite images concepts seed steps guidance_scale wording device workers batch_size dtype resamples report protocol
    text_targets until expression trace trace_steps trace_latents latents height width negative_prompt scheduler
    prior_steps prior_guidance_scale edit_steps edit_guidance_scale lora_scale variant device_map offload compile
    vae_tiling concurrency requests_per_minute dry_run json quiet
    paper paper_model recompute explain rows format evidence dataset board check_skin port
    name labels template trials all_trials question threshold most sentences unit alternative ddof spread
    effect margin power alpha target gate word intervention strength loss training_steps learning_rate
    quick item_column rater_column answer_column title shown pairs strata concept answer raters items blur
    ablate phrases
""".split()  # noqa: SIM905 - words are read, a list of eighty strings is not
)
"""Options that at most change what is measured, and how fast. Every option is here or in ``GUARDED``."""

GUARDED: Final = frozenset(
    """
    out log_file log_to table junit_file summary cache database manifest counts truth portraits reference consent policy
    registration history last baseline pilot pictures new export
    base_url reader_url trusted_host trust_remote_code engine host allowed_host behind_https password_file url
    lora lora_partly mitigation model_config trace_decoder decoder method reader verdict_reader writer rewriter
    rewriter_prompt
    system_prompt send_seed quality price answer_price budget retry_failed safety_checker max_pixels max_missing
    metric component within at_least at_most four_fifths allow_undecided unchecked suite_option drop_encoder
    benchmark source by in_scope out_of_scope license public pull_request
    check_drift repeats attention warning days demo rater simulated same_pictures yes
""".split()  # noqa: SIM905 - as above
) | {"verify evidence", "suites dataset", "test images", "test labels"}
"""Options that send data, spend, run code, weaken a check, read or write any file, or speak in the user's name.

Of a command alone where the option of that name is harmless in another.
"""

MODELS: Final = frozenset({"model", "encoder"})
"""Harmless where they name the reference, or a repository or an architecture: no directory, no file, no plug-in."""

_REPOSITORY: Final = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def is_harmless(command: str, option: str, value: Any) -> bool:
    """Return whether somebody else's file may set an option of a command to a value."""
    if option in MODELS:
        named = value if isinstance(value, list) else [value]
        return all(
            each == "reference" or (_REPOSITORY.fullmatch(str(each)) and not os.path.lexists(each)) for each in named
        )
    return option in HARMLESS and f"{command} {option}" not in GUARDED


def own_folder() -> Path:
    """Return the user's own directory of configuration: ``~/.config/clinometer`` on Linux."""
    return Path(typer.get_app_dir("clinometer"))


def _allowed() -> dict[str, str]:
    """Read which files the user has allowed, by their places: the hash of each; none where that cannot be read."""
    try:
        allowed = json.loads((own_folder() / "allowed.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return allowed if isinstance(allowed, dict) else {}


def is_allowed(file: Path, content: bytes) -> bool:
    """Return whether the user has allowed a file, with the content that it has now."""
    return _allowed().get(str(file.resolve())) == hashlib.sha256(content).hexdigest()


def allow(file: Path, content: bytes | None) -> None:
    """Remember that the user allows a file with its content; with None, that it is allowed no longer."""
    kept = {place: digest for place, digest in _allowed().items() if place != str(file.resolve())}
    if content is not None:
        kept[str(file.resolve())] = hashlib.sha256(content).hexdigest()
    try:
        own_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir=own_folder(), delete=False, encoding="utf-8") as written:
            json.dump(kept, written, indent=2)
        os.replace(written.name, own_folder() / "allowed.json")
    except OSError as error:
        raise InvalidInputError.cannot_write(own_folder(), error) from error


def refuse_untrusted(keys: Sequence[str], instead: str, file: str = "") -> None:
    """Refuse what a file sets that is not harmless: ``keys``, which ``instead`` would set; ``file`` where it was named.

    Raises
    ------
    InvalidInputError
        There is such a key.
    """
    if keys:
        raise InvalidInputError.untrusted(
            f"{first_and_more(keys, 3)}: set by a file that is not allowed to; give {instead}, or read the file and "
            f"give: {' '.join(('clinometer config allow', file)).rstrip()}"
        )
