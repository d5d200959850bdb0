"""What people answered about the pictures of a run: taken in, stored in the run, and made into scores."""
