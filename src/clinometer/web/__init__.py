"""A viewer over run directories, in a browser. It reads runs and computes no statistic."""
