"""The statements about the reader on docs/simulations.md: drawn here on few studies, and read off the page."""

from __future__ import annotations

import pytest

from benchmarks import reader_simulations as sim
from tests.docs.pages import page, table_rows

PAGE = "docs/simulations.md"


def percent(cell: str) -> float:
    return float(cell.rstrip("%")) / 100


def told(kind: str) -> list[tuple[str, str, float, int]]:
    rows = table_rows(page(PAGE), sim.HEADS[kind][0])
    return [(what, data, percent(rate), 0 if n == "–" else int(n)) for what, data, _, rate, _, n in rows]


@pytest.mark.parametrize(("reads", "known"), [((0.8, 0.8), 16), ((0.95, 0.95), 16), ((0.7, 1.0), 16)])
def test_the_corrected_interval_covers(reads, known):
    for found in sim.corrected_intervals(1, size=8, known=known, reads=reads):
        assert found.rate >= 0.945, found


@pytest.mark.parametrize("made_up", sim.NOISE)
def test_noise_is_refused_and_ability_is_not(made_up):
    (found,) = sim.believed(60, made_up, prompts=4, images=2)
    assert found.rate <= 0.01 + 4 * found.error
    (found,) = sim.refused(20, 0.9, prompts=4, images=8)
    assert found.rate <= 0.01 + 4 * found.error


def test_the_page_says_what_it_shows():
    """Within four standard errors of the rate that is wanted."""
    for what, data, rate, n in told("believed"):
        if what == "words differ, images are noise by prompt" and not data.startswith("4"):
            assert rate > 0.1
        else:
            assert rate <= 0.01 + 4 * (0.01 * 0.99 / n) ** 0.5, (what, data)
    for what, data, rate, _ in told("refused"):
        if "scatter" not in what and "no text" not in what and data.split()[4] in ("8", "16", "32"):
            assert rate <= 0.01, (what, data)
    for what, data, rate, _ in told("coverage"):
        dips = data.startswith(("8 images; 100% and 100%", "100 images; 70% and 70% read right of 16"))
        assert rate >= (0.925 if dips else 0.94), (what, data)


def test_experiments_run_from_their_list_and_the_page_is_written(tmp_path, monkeypatch):
    first = {each[0]: each for each in reversed(sim.experiments())}
    found = [f for experiment in (first[sim.believed], first[sim.refused]) for f in sim.run(experiment, 0.0)]
    assert {f.kind for f in found} == {"believed", "refused"}
    place = tmp_path / "page.md"
    marks = "".join(f"<!-- reader {kind} -->\nold\n<!-- end of reader {kind} -->\nkept\n" for kind in sim.HEADS)
    place.write_text(marks, encoding="utf-8")
    monkeypatch.setattr(sim, "PAGE", place)
    sim.write_section(found)
    text = place.read_text(encoding="utf-8")
    assert "old" not in text
    assert text.count("kept") == 3
    assert found[0].what in text
    place.write_text("no marks", encoding="utf-8")
    with pytest.raises(SystemExit, match="marks"):
        sim.write_section(found)
