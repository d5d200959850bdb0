"""A plug-in for clinometer: a module for each thing that a package can offer. See docs/api/extending.md."""
