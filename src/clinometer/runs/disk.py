"""Files of this machine's own filesystems, written so that a power cut finds them whole."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from clinometer.errors import RunStorageError


def not_writable(place: str, error: OSError) -> RunStorageError:
    """What a command says that must write in a place and may not."""
    return RunStorageError(
        f"{place}: cannot be written: {error.strerror or error}; give another --out, or copy the run to a place where "
        "you may write"
    )


def write_file(path: str, content: bytes | memoryview) -> None:
    """Write a file, and the folders it takes, and have the disk hold it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def create_file(path: str, temporary: str, content: bytes | memoryview) -> None:
    """Write under a temporary name, and link it: a link is made only where there is no file yet.

    Raises
    ------
    FileExistsError
        There is one.
    """
    try:
        write_file(temporary, content)
        try:
            os.link(temporary, path)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
                raise
            if os.path.lexists(path):  # a filesystem without links: what is between here and
                raise FileExistsError(path) from error
            os.replace(temporary, path)  # here is all that two writers can fall into
        settle(os.path.dirname(path))
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def settle(folder: str) -> None:
    """Have the disk note a new name: a power cut may else take back the renaming of a file that is on it."""
    with suppress(OSError):  # some systems open no directories
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
