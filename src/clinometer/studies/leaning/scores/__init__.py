"""A whole study: every number of a run, with intervals, tests and nulls, from embeddings alone."""
