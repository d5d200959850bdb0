"""Experiment trackers: what a run, a sweep or a comparison found, in MLflow, Weights & Biases, trackio or TensorBoard.

``content`` makes numbers, pictures and files of what was found, ``clients`` speaks to the trackers, in a process of its
own that ``send`` starts. See docs/tracking.md.
"""
