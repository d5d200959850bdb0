"""Markdown as a reader of CommonMark and of tables sees it: texts, cells, and whatever is no plain text."""

from __future__ import annotations

from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
PLAIN = {"text", "text_special", "softbreak"}
"""Tokens within a line that are words as they stand."""


def tokens(markdown: str) -> list[Token]:
    return READER.parse(markdown)


def kinds(markdown: str) -> set[str]:
    """What is in it, blocks and within lines."""
    return {
        kind for token in tokens(markdown) for kind in (token.type, *(child.type for child in token.children or ()))
    }


def text_of(token: Token) -> str:
    return "".join(child.content for child in token.children or ())


def tables(markdown: str) -> list[list[list[str]]]:
    """Every table as rows of cells, its head first."""
    found: list[list[list[str]]] = []
    for opening, token in _inside(markdown):
        if opening == "table_open":
            found.append([])
        elif opening == "tr_open":
            found[-1].append([])
        elif opening == "cell":
            found[-1][-1].append(text_of(token))
    return found


def _inside(markdown: str) -> Iterator[tuple[str, Token]]:
    in_cell = False
    for token in tokens(markdown):
        if token.type in ("th_open", "td_open"):
            in_cell = True
        elif token.type in ("th_close", "td_close"):
            in_cell = False
        elif token.type == "inline" and in_cell:
            yield "cell", token
        else:
            yield token.type, token
