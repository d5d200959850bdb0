"""What a page is looked at with: a Chromium, sizes of screens and paper, and scripts that find what nobody can read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
PATIENCE = 600_000
"""Milliseconds until a page that does not come to what is waited for hangs; a busy machine takes many seconds."""

PHONE = {"width": 360, "height": 740}
DESK = {"width": 1280, "height": 900}
PAPER = {"width": 688, "height": 1000}  # A4 less the margins of the style sheet, at 96 pixels an inch

CONTRAST = """
() => {
  const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const rgba = (text) => text.match(/[\\d.]+/g).map(Number);
  const ground = (element) => {
    for (; element; element = element.parentElement) {
      const [r, g, b, a = 1] = rgba(getComputedStyle(element).backgroundColor);
      if (a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest("[aria-hidden=true]")) continue;
    const style = getComputedStyle(element);
    const ink = rgba(element.tagName === "text" ? style.fill : style.color);
    const [low, high] = [luminance(ink), luminance(ground(element))].sort((x, y) => x - y);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) found.push([element.tagName, element.textContent.trim().slice(0, 40), ratio.toFixed(2)]);
  }
  return found;
}
"""

CUT = """
() => [...document.querySelectorAll(".scroll")].filter((region) => region.checkVisibility()
  && region.scrollWidth > region.clientWidth + 1).map((region) => region.getAttribute("aria-label"))
"""

CLOSED = """
() => [...document.querySelectorAll("details:not(.concept, .fold)")].filter((details) =>
  !details.lastElementChild.checkVisibility()).map((details) => details.textContent.trim().slice(0, 40))
"""


@contextmanager
def launched_chromium() -> Iterator[Browser]:
    """Launch a Chromium whose pages wait for what a test waits for, however busy the machine is."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments, timeout=PATIENCE)
        make = browser.new_context

        def new_context(**options: Any) -> BrowserContext:
            context = make(**options)
            context.set_default_timeout(PATIENCE)
            return context

        browser.new_context = new_context  # type: ignore[method-assign]
        yield browser
        browser.close()
