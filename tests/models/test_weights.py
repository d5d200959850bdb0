"""Hashes of files, which must not depend on the system that computes them."""

from pathlib import PureWindowsPath

from clinometer.models.weights import hash_files


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
