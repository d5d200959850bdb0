"""The site of the documentation: every page is in it, it is built without a warning, and it loads nothing from outside.

``make docs`` builds it by the same command.
"""

import functools
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import threading
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from tests.docs.pages import ROOT, blocks
from tests.report.browsing import launched_chromium

REFERENCE = {
    "clinometer": "clinometer",
    "clinometer.metrics": "metrics",
    "clinometer.studies.leaning": "leaning",
    "clinometer.models": "extending",
    "clinometer.suites": "extending",
    "clinometer.runs": "extending",
    "clinometer.gates": "extending",
    "clinometer.sweeps": "extending",
}
"""Of each module whose public names have a reference, the page that has them."""


class Seen(HTMLParser):
    """What a page loads, its anchors, and how many items, tables and blocks of code it shows."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.anchors, self.tags = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.append(tag)
        self.anchors.add(given.get("id"))
        if tag in {"script", "img", "iframe", "source"} or (tag == "link" and given.get("rel") != "canonical"):
            self.loads.append(given.get("src") or given.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, as ``make docs`` makes it, in another folder."""
    made = subprocess.run(["make", "--dry-run", "docs"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    (command,) = (shlex.split(line) for line in made.splitlines() if " mkdocs build " in line)
    folder = tmp_path_factory.mktemp("site")
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, *command[1:], "--site-dir", folder],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def navigation(entries):
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from navigation(value) if isinstance(value, list) else [value]


@pytest.mark.thorough
def test_every_page_is_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").replace("!!python/object/apply:", "!")
    loader = type("Loader", (yaml.SafeLoader,), {})
    loader.add_multi_constructor("!", lambda *_: None)
    found = set(navigation(yaml.load(text, loader)["nav"]))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert pages - found == {name for name in pages if name.startswith("decisions/")}  # named by their folder
    assert "decisions" in found


@pytest.mark.thorough
@pytest.mark.slow
def test_it_loads_nothing_from_elsewhere(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(list((ROOT / "docs").rglob("*.md")))
    loads = {(page.name, load) for page in pages for load in Seen(page.read_text(encoding="utf-8")).loads}
    assert loads
    assert [each for each in loads if re.match(r"(\w+:)?//", each[1])] == []
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//", style.read_text(encoding="utf-8"))


@pytest.mark.thorough
@pytest.mark.slow
def test_it_shows_lists_tables_and_code_as_a_forge_does(site):
    from markdown_it import MarkdownIt

    forge, wrong = MarkdownIt("commonmark").enable("table"), []
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if "<!-- api:" in text:
            continue
        name = path.relative_to(ROOT / "docs").with_suffix(".html")
        page = site / (name if name.stem != "README" else name.with_name("index.html"))
        article = page.read_text(encoding="utf-8").split("<article")[1].split("</article>")[0]
        shown, meant = Seen(article).tags, Seen(forge.render(text)).tags
        for tag in ("li", "tr", "pre", "h2", "h3"):
            if shown.count(tag) != meant.count(tag):
                wrong.append(f"{path.name}: {shown.count(tag)} of {meant.count(tag)} <{tag}>")
    assert wrong == []


@pytest.mark.thorough
@pytest.mark.slow
def test_the_reference_has_every_public_name(site):
    for module, page in REFERENCE.items():
        anchors = Seen((site / f"api/{page}.html").read_text(encoding="utf-8")).anchors - {None}
        ends = {anchor.rpartition(".")[2] for anchor in anchors if anchor.startswith(module)}
        assert set(importlib.import_module(module).__all__) - ends == set(), page
    audit = (site / "api/clinometer.html").read_text(encoding="utf-8")
    assert re.search(r"<li[^>]*doc-section-item[^>]*>\s*<b><code>guidance_scale", audit)  # which a decorator documents
    assert ":func:" not in audit


@pytest.mark.thorough
@pytest.mark.slow
def test_the_reference_is_read_as_lists_and_nothing_of_a_docstring_is_left_as_it_was(site):
    for page in sorted((site / "api").glob("*.html")):
        text = re.sub(r"<pre.*?</pre>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert text.count("doc-section-item") > 40, page.name
        assert re.findall(r".*(?:-----|>::<|<blockquote>|<p>(?:Parameters|Raises|Returns)\b).*", text) == []


@pytest.mark.thorough
@pytest.mark.slow
def test_a_reader_searches_and_no_other_host_is_asked(site):
    asked = set()
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, launched_chromium() as browser:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        page = browser.new_context().new_page()
        page.on("request", lambda request: asked.add("/".join(request.url.split("/")[:3])))
        for name in ("index.html", "gallery.html", "api/clinometer.html"):
            page.goto(f"{url}/{name}")
        page.click("[data-md-component=search-query]")
        page.keyboard.type("baseline of a sweep")
        page.wait_for_selector(".md-search-result a[href*='/sweeps.html']", state="attached")
        server.shutdown()
    assert asked == {url}


HOUSE = """Say it::

    a = b

Parameters
----------
x, y : numbers, whatever
    their sign : any.
z : another.

Returns
-------
What was said.

More of it.

>>> 1 + 1
2
"""
NUMPYDOC = """Say it:

    a = b

More of it.

```pycon
>>> 1 + 1
2
```

Parameters
----------
x
    numbers, whatever
    their sign : any.
y
    numbers, whatever
    their sign : any.
z
    another.

Returns
-------
str
    What was said.

"""


@pytest.mark.thorough
def test_a_docstring_of_the_house_becomes_one_of_numpydoc():
    spec = importlib.util.spec_from_file_location("make_site", ROOT / "docs/make_site.py")
    making = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(making)
    assert re.sub("\n\n+", "\n\n", making.as_numpydoc(HOUSE, "str")) == NUMPYDOC


@pytest.mark.thorough
def test_pictures_of_the_gallery_are_small_and_all_shown():
    pictures = list((ROOT / "docs/images/gallery").iterdir())
    assert pictures
    assert sum(path.stat().st_size for path in pictures) < 1_000_000
    text = (ROOT / "docs/gallery.md").read_text(encoding="utf-8")
    assert not blocks(text, "sh")
    assert {path.name for path in pictures} == set(re.findall(r"images/gallery/([\w.-]+)", text))
