"""A package by name, so that no installed package's own `tests` is taken for it."""
