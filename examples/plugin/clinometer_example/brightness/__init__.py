"""A study in one folder: whether a model's images are brighter than half grey."""
