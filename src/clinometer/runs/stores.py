"""Object stores: how they differ from a disk, and how their clients' errors are worded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from clinometer.errors import ClinometerError, RunStorageError

STORES: Final = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oci"})
"""Kinds of filesystems where a file appears when its last byte has come, so that nothing has to be renamed."""

READ_ONLY: Final = frozenset({"hf"})
"""Kinds that runs are read from and never written to: there each file would be a commit."""

CLIENTS: Final = frozenset(
    {"botocore", "aiobotocore", "aiohttp", "gcsfs", "google", "azure", "fsspec", "requests", "huggingface_hub"}
    | {"httpx", "httpx2", "httpcore", "httpcore2"}
)
"""Packages that talk to a store."""


def options_for(url: str) -> dict[str, Any]:
    """Options of a filesystem: other processes write there too, so listings must not be cached."""
    return {"use_listings_cache": False} if url.partition("://")[0] in STORES else {}


BUSY: Final = frozenset({429, 500, 502, 503, 504})
"""Answers of a server that may do what it is asked a little later."""

ATTEMPTS: Final = 6
"""Times a request is made before it is given up: a tenth of a second apart first, and each time 1.7 times as long."""


def be_patient(fs: Any) -> None:
    """Have a filesystem ask a busy store again; s3fs by itself overlooks answers without a body, as of HEAD."""
    if "s3" not in fs.protocol or not hasattr(fs, "retries"):
        return
    from s3fs.core import set_custom_error_handler

    fs.retries = max(fs.retries, ATTEMPTS)
    set_custom_error_handler(_is_busy)


def _is_busy(error: Any) -> bool:
    answer = getattr(error, "response", None) or {}
    return answer.get("ResponseMetadata", {}).get("HTTPStatusCode") in BUSY


def is_of_client(error: BaseException) -> bool:
    """Whether an error says something of the way to a store, and nothing of what lies there."""
    return any(kind.__module__.partition(".")[0] in CLIENTS for kind in type(error).__mro__)


def no_answer(path: str, error: BaseException) -> RunStorageError:
    """The error about a store that gives no answer, or one without meaning."""
    message = " ".join(str(error).split())[:300] or "no reason given"
    return RunStorageError(
        f"{path}: the store does not answer as it should ({type(error).__name__}: {message}); see the credentials in "
        "the environment and the connection, and give the same command again"
    )


@contextmanager
def answering(path: str) -> Iterator[None]:
    """Word errors on the way to a store in one line: its client raises errors of its own kinds.

    Raises
    ------
    RunStorageError
        No credentials, no answer, or one that means nothing.
    """
    try:
        yield
    except (OSError, ClinometerError) as error:
        if not is_of_client(error):
            raise
        raise no_answer(path, error) from error
    except Exception as error:
        raise no_answer(path, error) from error
