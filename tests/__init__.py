"""The tests. A package, because other packages install one of this name, which would hide a folder without this."""
