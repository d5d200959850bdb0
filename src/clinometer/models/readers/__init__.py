"""Readers: what says, by a closed question, what a picture shows."""
