"""What MkDocs is helped with when it makes the site of these pages; mkdocs.yml names this file as a hook.

The pages are written to be read on a forge. README, CONTRIBUTING and what else they link to outside ``docs`` come into
the site under the path that they have in the repository; the decisions come into the navigation by their number; and
``<!-- api: clinometer.metrics -->``, which a forge does not show, becomes the reference of that module.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from textwrap import indent
from typing import Any

from griffe import Extension, Function, Object
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")
REFERENCE = re.compile(r"<!-- api: (.+?) -->", re.DOTALL)
SECTION = re.compile(r"^([A-Z]\w+)\n-{3,}\n", re.MULTILINE)
AFTER = re.compile(r"\n\n(?=\S)")
DOCTEST = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
ENTRY = re.compile(r"^(\S.*?) : ?(.*\n?(?:[ \n].*\n?)*)", re.MULTILINE)
ROLE = re.compile(r":(?:func|class|mod|meth|attr|data|exc):(?:(?=<code>)|`([^`<]*)`)| *# doctest: [^<\n]*")


def in_repository(file: File) -> str:
    """Find the path that a page has in the repository."""
    return file.src_uri if file.generated_by else f"docs/{file.src_uri}"


def in_site(path: str) -> str:
    """Find the path that a file of the repository has in the site."""
    return path.removeprefix("docs/")


def links(text: str) -> Iterator[str]:
    """List the files that a page links to, leaving out what stands in code."""
    for part in FENCE.split(text)[::2]:
        yield from LINK.findall(part)


def on_config(config: Any) -> Any:
    """Put the decisions into the navigation where it says ``decisions``."""
    pages = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
    for _, group in (item for section in config.nav for item in (section.items() if isinstance(section, dict) else ())):
        for entry in group:
            if isinstance(entry, dict) and entry.get("Decisions") == "decisions":
                entry["Decisions"] = ["decisions/README.md", *(f"decisions/{page.name}" for page in pages)]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add what lies outside ``docs``: the README, and all that pages link to, as far as links lead."""
    waiting = ["README.md", *(f"docs/{file.src_uri}" for file in files.documentation_pages())]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        if not path.startswith("docs/"):
            files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
        if path.endswith(".md"):
            for link in links((ROOT / path).read_text(encoding="utf-8")):
                target = normpath(PurePosixPath(path).parent / link)
                if target not in seen and (ROOT / target).is_file():
                    seen.add(target)
                    waiting.append(target)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links to where their files are in the site, and ask for references where a comment says so."""
    here = in_repository(page.file)

    def lead(found: re.Match[str]) -> str:
        target = normpath(PurePosixPath(here).parent / found[0])
        return relpath(in_site(target), PurePosixPath(in_site(here)).parent)

    parts = FENCE.split(markdown)
    parts[::2] = [LINK.sub(lead, part) for part in parts[::2]]
    return REFERENCE.sub(r"::: \1", "".join(parts))


def on_page_content(html: str, **_: Any) -> str:
    """Take out of docstrings what is for tools: the role in ``:func:`x```, and the options of doctest."""
    return ROLE.sub(r"\1", html)


def as_numpydoc(text: str, returned: str) -> str:
    """Write a docstring of this house in the form that griffe reads.

    Here, what stands after ``name : `` describes, for the type is in the signature; names that share a description
    have types of their own; what is returned is told in sentences; after an empty line, text goes on, and doctests may
    stand in it.
    """
    text = re.sub(r"^::\n\n?|:(?=:$)", "", text, flags=re.MULTILINE)
    told, *sections = SECTION.split(text)
    written = []
    for name, body in zip(sections[::2], sections[1::2], strict=True):
        entries, *after = [body] if name == "Examples" else AFTER.split(f"{body.rstrip()}\n", maxsplit=1)
        if name in {"Parameters", "Attributes"}:
            entries = ENTRY.sub(lambda one: "".join(f"{each}\n    {one[2]}" for each in one[1].split(", ")), entries)
        elif name in {"Returns", "Yields"} and not re.match(r"\w+\n ", entries):
            entries = f"{returned}\n{indent(entries, '    ')}"
        told += "".join(f"{each}\n" for each in after)
        written.append(f"{name}\n{'-' * len(name)}\n{entries}\n\n")
    return DOCTEST.sub(r"```pycon\n\g<0>\n```", told) + "".join(written)


class DocstringsOfTheHouse(Extension):
    """Read docstrings as they are written here, and what a decorator makes, such as of the options of an audit."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Give each docstring the form that is read."""
        if obj.docstring is None:
            return
        told, returned = obj.docstring.value, None
        if isinstance(obj, Function):
            returned = obj.returns
            if any(str(decorator.value).startswith(("documented", "_take_options")) for decorator in obj.decorators):
                told = inspect.getdoc(getattr(importlib.import_module(obj.module.path), obj.name)) or ""
        obj.docstring.value = as_numpydoc(told, str(returned))
