"""Ratings by people: taken in, kept in the run, and made into scores."""

from clinometer.runs.ratings.scoring import mixed_raters, with_ratings
from clinometer.runs.ratings.store import add_ratings, ratings_of, remove_ratings

__all__ = ["add_ratings", "mixed_raters", "ratings_of", "remove_ratings", "with_ratings"]
