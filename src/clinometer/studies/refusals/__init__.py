"""Refusals: what a model does not draw, and whom it does not draw. Counted in runs of every study."""
