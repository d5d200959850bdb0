"""What happens to a run in which order, and on which processes."""
