"""The sections of a leaning study's page."""
