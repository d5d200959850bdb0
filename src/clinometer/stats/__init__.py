"""Statistics over plain arrays: arrays in, frozen records out. No file, no model, no log."""
