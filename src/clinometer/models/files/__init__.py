"""Finished images in place of a model: folders, data sets, portraits."""
