"""The editing study: what an edit does to people's gender, skin and likeness (the downstream paper)."""
