"""Hashes of files, which must not depend on the system that computes them."""

from pathlib import PureWindowsPath

import pytest

from clinometer.models.weights import hash_files, in_words


def test_a_hash_does_not_follow_a_systems_order_of_names(tmp_path, monkeypatch):
    files = [tmp_path / name for name in ("B.json", "a.json", "c/A.txt")]
    (tmp_path / "c").mkdir()
    for path in files:
        path.write_text(path.name)
    here = hash_files(files, tmp_path)
    assert here == hash_files(files[::-1], tmp_path)
    monkeypatch.setattr(type(files[0]), "__lt__", lambda one, other: PureWindowsPath(one) < PureWindowsPath(other))
    assert sorted(files)[0].name == "a.json"
    assert hash_files(files, tmp_path) == here


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError("Error no file named config.json.\nSee the manual."), "Error no file named config.json"),
        (KeyError("unet"), "KeyError: 'unet'"),
        (RuntimeError(), "RuntimeError"),
    ],
)
def test_an_error_goes_by_its_kind_only_where_its_message_says_too_little(error, said):
    assert in_words(error) == said
