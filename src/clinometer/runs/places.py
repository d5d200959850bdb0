"""Names of the files of a run within its directory."""

from __future__ import annotations

import re


def samples_name(part: int) -> str:
    """Where a part's samples lie."""
    return f"samples/part-{part:05d}.parquet"


def unfinished_name(part: int) -> str:
    """Where those of a part's samples lie that were drawn before it was stopped."""
    return f"unfinished/part-{part:05d}.parquet"


def classifications_name(part: int) -> str:
    """Where the denoising errors of a part's samples lie."""
    return f"classifications/part-{part:05d}.parquet"


def embeddings_name(encoder: str) -> str:
    """Where an encoder's embeddings lie. Characters that a path cannot hold become hyphens."""
    place = re.sub(r"[^A-Za-z0-9._-]+", "-", encoder)
    return f"embeddings/{place if place.strip('.') else '-' * len(place) or '-'}"  # ".." is another folder


def same_place(encoder: str, other: str) -> bool:
    """Whether two encoders' embeddings would share a folder: on many systems names that differ in case do."""
    return embeddings_name(encoder).lower() == embeddings_name(other).lower()


def vectors_name(encoder: str, part: int) -> str:
    """Where an encoder's embeddings of a part's images lie."""
    return f"{embeddings_name(encoder)}/part-{part:05d}.parquet"
