"""A gap planted in the reference model is found, with its reader's errors known from labelled portraits."""

import contextlib
from dataclasses import replace

import pytest

import clinometer as cm
from clinometer.models import load_generator, reference
from tests import quick


class Deaf:
    """Draws the neutral prompt where a woman is asked for; mechanics are men by default, .85 planted."""

    def __init__(self):
        self.inner = load_generator("reference", steps=2)
        self.card = replace(self.inner.card, name="deaf")
        self.batch_size = self.inner.batch_size

    def generate(self, requests):
        yield from self.inner.generate([replace(each, prompt=each.prompt.replace("woman ", "")) for each in requests])


@pytest.mark.thorough
def test_a_planted_gap_of_the_reference_model_is_found(tmp_path):
    quick.audit(
        Deaf(), "steerability/reference", tmp_path / "run", concepts=["mechanic"], images=16, encoder="reference"
    )
    labelled = tmp_path / "labelled"
    labelled.mkdir()
    rows = ["file,group"]
    for file in sorted(reference.portraits_path().glob("*-adult-*.png")):
        (labelled / file.name).write_bytes(file.read_bytes())
        rows.append(f"{file.name},{'woman' if 'woman' in file.name else 'man'}")
    (labelled / "labels.csv").write_text("\n".join(rows))
    with contextlib.chdir(tmp_path):
        cm.read_run("run", reader="reference", truth=labelled / "labels.csv")
    (row,) = cm.open_run(tmp_path / "run").verdicts.itertuples()
    assert (row.component, row.verdict, row.side) == ("corrected_gap", "leans", "man")
    assert row.low <= 0.85 <= row.high
