"""The sections of an editing study's page."""
