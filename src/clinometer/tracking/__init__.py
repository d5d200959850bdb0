"""Experiment trackers: what a run, a sweep or a comparison found, in MLflow, Weights & Biases, trackio or TensorBoard.

``content`` makes numbers, pictures and files of what was found, and starts a process for each tracker, in which
``clients`` speaks to it. See docs/tracking.md.
"""
