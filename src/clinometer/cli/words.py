"""Somebody else's words on a terminal: names, prompts, messages of servers."""

from __future__ import annotations

from rich.markup import escape

from clinometer._messages import printable


def plain_text(text: str) -> str:
    """Text as rich prints it: no markup is read in it, and nothing reaches the terminal but letters and lines."""
    return escape(printable(text))
