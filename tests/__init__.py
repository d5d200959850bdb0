"""A package, so that a process that is started imports these tests and not a `tests` that some package installs."""
