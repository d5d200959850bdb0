"""What a study's page says of the limits of its numbers, as text."""

from __future__ import annotations

from html.parser import HTMLParser

from clinometer.report.html import environment
from clinometer.report.page import Page
from clinometer.report.view import View

METHOD = "method"
"""The id of the section that has the limits, in a list of the class ``limits``."""


def limits_of(page: Page, view: View) -> list[tuple[str, str]]:
    """The limits in the order and the words of the page: what stands out of each, and the rest.

    None of a study whose page has no such section.
    """
    section = next((section for section in page.sections if section.id == METHOD), None)
    values = section.build(view) if section is not None else None
    if section is None or values is None:
        return []
    names = [f"{section.template}.html", f"sections/{section.template}.html"]
    reader = _Limits()
    reader.feed(environment(page.package).select_template(names).render(s=values))
    reader.close()
    return [(" ".join(lead.split()), " ".join(rest.split())) for lead, rest in reader.limits]


class _Limits(HTMLParser):
    """Reads the list: what is strong leads an item, all else follows it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.limits: list[list[str]] = []
        self._inside = self._is_item = self._is_lead = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "ul":
            self._inside = ("class", "limits") in attrs
        elif tag == "li" and self._inside:
            self.limits.append(["", ""])
            self._is_item = True
        elif tag == "strong":
            self._is_lead = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "ul":
            self._inside = False
        elif tag == "li":
            self._is_item = False
        elif tag == "strong":
            self._is_lead = False

    def handle_data(self, data: str) -> None:
        if self._is_item:
            self.limits[-1][0 if self._is_lead else 1] += data
