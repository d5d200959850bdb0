"""The sections of a T2IAT study's page."""
