"""Image files in folders, by their names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from clinometer.errors import InvalidInputError

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".jp2", ".ppm", ".tga", ".qoi")
"""What counts as an image in a folder; a file that is named is read whatever its suffix."""


def image_files(places: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """List the files named, and the images in the folders named, sorted within a folder; hidden ones are left out.

    Raises
    ------
    InvalidInputError
        One of them is not there, or a folder holds no image.
    """
    files: list[Path] = []
    for place in map(Path, places):
        if place.is_dir():
            inside = sorted(path for path in place.rglob("*") if _is_image(path, place))
            if not inside:
                raise InvalidInputError(f"{place}: no image in this folder (expected {', '.join(SUFFIXES[:4])}, …)")
            files += inside
        elif place.is_file():
            files.append(place)
        else:
            raise InvalidInputError(f"{place}: no such file or folder")
    if not files:
        raise InvalidInputError("images: none given; give files or folders")
    return files


def _is_image(path: Path, folder: Path) -> bool:
    """Whether a path in a folder is an image's by its name; macOS puts ``._a.png`` beside ``a.png``."""
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.suffix.lower() in SUFFIXES and not hidden and path.is_file()
