"""A classifier trained on the shipped portraits reads them, and its errors are counted."""

from __future__ import annotations

import numpy as np
import pytest

import clinometer as cm
from tests.models.readers.emoji_reader import PORTRAITS, portraits, train

QUESTION = """
name: sex
text: Does this picture show a man or a woman?
answers:
  woman: {text: a woman}
  man: {text: a man}
"""


@pytest.mark.thorough
def test_a_small_classifier_reads_what_it_was_trained_on(tmp_path):
    pictures, men = portraits()
    model = train(tmp_path / "emoji", pictures, men)
    assert sum(file.stat().st_size for file in model.iterdir()) < 2_000_000
    names = sorted(path.name for path in PORTRAITS.glob("*.png"))
    known = [name for name in names if "-flat-" not in name]
    truth = tmp_path / "truth.csv"
    truth.write_text("file,group\n" + "".join(f"{n},{'woman' if 'woman' in n else 'man'}\n" for n in known))
    (tmp_path / "sex.yaml").write_text(QUESTION)
    found = cm.read_images(
        PORTRAITS, reader=str(model), question=tmp_path / "sex.yaml", truth=truth, out=tmp_path / "readings"
    )
    assert (found.confusion.recall > 0.9).all()
    assert found.answers.sum() == len(names) - len(known)
    share = np.mean(["woman" in name for name in names if name not in known])
    assert found.shares.low[0] <= share <= found.shares.high[0]
