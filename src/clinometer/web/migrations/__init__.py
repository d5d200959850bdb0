"""Alembic's environment: the schema of the ratings, step by step."""
