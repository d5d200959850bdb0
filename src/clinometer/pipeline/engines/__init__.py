"""Engines: where the parts of a run are worked on. One maps units to workers, and knows nothing of models or runs.

A part is the unit of work (docs/decisions/0027), so results cannot depend on the engine, on how many workers it has or
on the order in which they finish.

A package offers one by an entry point in the group ``clinometer.engines``: a callable ``factory(address: str, workers:
int | None)`` that returns an :class:`Engine`. ``address`` is what follows the equals sign in ``--engine name=address``.
See decision 36.
"""

from clinometer.pipeline.engines.opening import open_engine, places_by_weights
from clinometer.pipeline.engines.protocol import MOST_DEATHS, Death, Done, Engine, Unit, Work

__all__ = ["MOST_DEATHS", "Death", "Done", "Engine", "Unit", "Work", "open_engine", "places_by_weights"]
