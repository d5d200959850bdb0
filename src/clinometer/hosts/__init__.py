"""Tools that host evaluations: a module for each, which names what the tool looks for. See docs/hosts.md."""
