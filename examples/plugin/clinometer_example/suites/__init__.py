"""Suites, each a YAML file: ``example/walls`` and ``example/colours``."""
