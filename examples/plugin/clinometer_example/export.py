"""A format for ``clinometer card --format plain-text``: a line a number that has a verdict."""


def write(run):
    """Write a scored run as text."""
    rows = run.scores[run.scores.verdict != ""]
    lines = [f"{row.concept}: {row.component} {row.value:+.3f} [{row.low:+.3f}, {row.high:+.3f}], {row.verdict}"
             for row in rows.itertuples()]  # fmt: skip
    return "\n".join([run.suite.title, *lines, ""])
