"""The figures of an editing study's page."""
