"""Ratings by people: taken in, kept in the run, and made into scores."""

from clinometer.runs.ratings.scoring import rescore, with_ratings
from clinometer.runs.ratings.store import add_ratings, ratings_of

__all__ = ["add_ratings", "ratings_of", "rescore", "with_ratings"]
