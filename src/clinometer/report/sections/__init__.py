"""What each section of a page says, as plain values for its template."""
