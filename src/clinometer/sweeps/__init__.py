"""Sweeps: audits of a grid of models and settings, each an ordinary run, and what the settings change.

A sweep is a directory, and every cell of its grid is a run in it::

    SWEEP/sweep.json                 the grid as it was asked, and what became of each cell
    SWEEP/cells/NAME/                a run directory, as an audit writes it
    SWEEP/pooled/NAME/…              numbers of a setting over all its seeds, kept so that they are computed once
    SWEEP/table.csv                  a row a number of each setting, with its difference from the baseline
    SWEEP/differences.csv            every difference that was computed, as comparison.csv has them
    SWEEP/split.csv                  what the network learned and what guidance adds, where a setting is at guidance 1
    SWEEP/sweep.html                 the page
"""

from clinometer.sweeps.grid import AXES, Cell, Grid, SweepFile, load_sweep, sweep_from_mapping

__all__ = ["AXES", "Cell", "Grid", "SweepFile", "load_sweep", "sweep_from_mapping"]
