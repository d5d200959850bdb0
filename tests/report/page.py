"""A page, parsed strictly enough to test: every element with its ancestors, attributes and text."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

from clinometer.pipeline.results import render_html
from clinometer.report.html import render_page
from clinometer.report.view import ReportInput
from clinometer.studies import study_of

VOID = {"meta", "link", "img", "br", "input", "hr", "wbr"}


def write_html(report: ReportInput, path: Path) -> Path:
    """Write a page as a run's report is written, and return its path."""
    path.write_bytes(render_html(report).encode("utf-8", "replace"))
    return path


def with_only(report: ReportInput, *sections: str) -> Page:
    """The head of a page and some of its sections, for who asks for their words: a whole one has many figures more."""
    page = copy(study_of(report.suite).page(report.suite))
    page.sections = tuple(section for section in page.sections if section.id in ("masthead", *sections))
    assert len(page.sections) == 1 + len(sections), f"of {sections} there are {[each.id for each in page.sections]}"
    return Page(render_page(report, page))


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    parent: Element | None
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join("".join(self.pieces).split())

    def within(self, identifier: str) -> bool:
        return self.parent is not None and (
            self.parent.attributes.get("id") == identifier or self.parent.within(identifier)
        )

    def inside(self, tag: str) -> bool:
        return self.parent is not None and (self.parent.tag == tag or self.parent.inside(tag))


class Page(HTMLParser):
    """Elements in order; a tag closed out of turn is an error."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.open: list[Element] = []
        self.feed(html)
        self.close()
        assert not self.open, f"left open: {[element.tag for element in self.open]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"attribute twice in <{tag}>: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs}, self.open[-1] if self.open else None)
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.pieces.append(data)

    def find(self, tag: str, **attributes: str) -> list[Element]:
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [
            element
            for element in self.elements
            if element.tag == tag and all(element.attributes.get(name) == value for name, value in wanted.items())
        ]

    def by_id(self, identifier: str) -> Element:
        (found,) = (e for e in self.elements if e.attributes.get("id") == identifier)
        return found
