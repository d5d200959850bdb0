"""The explorer as a folder of pages: opens from a file or from any web host, with small pictures and without a server.

Pages show what the explorer shows of each run, and of runs of one suite side by side, without filters. People's ratings
stay on the server. Files are named by numbers, every picture is decoded and saved again, and a page loads nothing but
these thumbnails, so a hostile run can do no more than on the server.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from markupsafe import Markup

from clinometer.errors import InvalidInputError, RunStorageError
from clinometer.pipeline.results import render_html
from clinometer.report.html import asset, page_style, policy
from clinometer.studies.reporting import report_input
from clinometer.web import pages
from clinometer.web.explorer import Column, ExplorerPage, ExplorerQuery, OwnerSection, viewed
from clinometer.web.pictures import Album
from clinometer.web.runs_index import MOST_RUNS, Listed, RunEntry, RunsIndex
from clinometer.web.sample_index import IndexedSample, RunIndices, Samples

IMAGES: Final = 24
"""Pictures of each concept and group, the first of the plan, at most."""


@dataclass
class _Site:
    """A folder that is being written, and what pages are made of."""

    folder: Path
    state: Any
    images: int
    names: dict[str, str] = field(default_factory=dict)
    """The file of each picture by its run and sample; empty of one that cannot be shown."""

    def picture(self, column: Column, sample: IndexedSample) -> str:
        """Write a sample's picture once; its address from a page, empty where there is none to show."""
        key = f"{column.id}/{sample.id}"
        if key not in self.names:
            shows = sample.status in ("ok", "blank") and not sample.flagged
            content = self.state.album.picture(column.run, sample, "small") if shows else None
            self.names[key] = f"pictures/{len(self.names)}.webp" if content else ""
            if content:
                self.folder.joinpath(self.names[key]).write_bytes(content)
        return self.names[key]

    def write(self, file: str, template: str, **values: Any) -> None:
        """Fill in a template and write a page."""
        style, script = page_style(pages.files()["web.css"]), asset("page.js")
        allowed = policy(style, script).replace("img-src data:", "img-src 'self' file: data:")
        head = {"style": Markup(style), "script": Markup(script), "policy": allowed}
        text = pages.environment().get_template(template).render(**head, **values)
        self.folder.joinpath(file).write_text(text, "utf-8", "backslashreplace")


def write_site(
    places: Sequence[str], folder: Path, cache: Path, *, images: int = IMAGES, has_reports: bool = True
) -> list[str]:
    """Write the explorer of some runs into a new folder, and return the names of its pages.

    Parameters
    ----------
    places : run directories, or folders of them; paths or URLs.
    cache : a folder for indices and small pictures, as the server has.
    images : of each concept and group, at most 24.
    has_reports : whether the report of each scored run is written beside its pictures.

    Raises
    ------
    InvalidInputError
        The folder is there and not empty, or is a file.
    RunError, RunStorageError
        A run cannot be read; the folder cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInputError.already_exists(
            f"--export {folder}: found something there, expected a new or an empty folder"
        )
    index = RunsIndex(tuple(places))
    shelf = RunIndices(cache / "samples", patience=threading.TIMEOUT_MAX)
    state = SimpleNamespace(runs=index, shelf=shelf, album=Album(cache), ratings=None)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
            site = _Site(Path(temporary, "site"), state, min(images, IMAGES))
            (site.folder / "pictures").mkdir(parents=True)
            listed = index.listed()
            whole = [run for run in listed if not run.error]
            rows = [_write_run(site, number, run, has_reports=has_reports) for number, run in enumerate(whole, 1)]
            beside = list(_write_side_by_side(site, whole))
            site.write("index.html", "site_index.html", rows=rows, beside=beside, broken=len(listed) - len(whole))
            os.replace(site.folder, folder)  # a folder that is there is whole
    except OSError as error:
        raise RunStorageError(f"--export {folder}: cannot be written: {error.strerror or error}") from error
    return sorted(path.name for path in folder.glob("*.html"))


def _write_run(site: _Site, number: int, run: Listed, *, has_reports: bool) -> Mapping[str, Any]:
    """Write the pictures of a run and its report; what the index says of it."""
    file, report = f"run-{number}.html", ""
    _write_pictures(site, file, [run.id])
    entry: RunEntry = site.state.runs.get(run.id)
    if has_reports and run.is_scored and entry.run is not None:
        report = f"report-{number}.html"
        page = render_html(report_input(entry.run))
        site.folder.joinpath(report).write_text(page, "utf-8", "backslashreplace")
    return {"run": run, "file": file, "report": report}


def _write_side_by_side(site: _Site, listed: Sequence[Listed]) -> Iterator[tuple[str, list[Listed]]]:
    """Write the runs of each suite side by side, as many as a page takes; the files, and the runs of each."""
    by_suite = groupby(sorted(listed, key=lambda run: run.suite), key=lambda run: run.suite)
    for number, (_, of_suite) in enumerate(by_suite, 1):
        runs = list(of_suite)[:MOST_RUNS]
        if len(runs) > 1:
            _write_pictures(site, f"side-by-side-{number}.html", [run.id for run in runs])
            yield f"side-by-side-{number}.html", runs


def _write_pictures(site: _Site, file: str, runs: list[str]) -> None:
    """Write the page of some runs: every owner's first pictures, and how many there are."""
    sections: list[tuple[OwnerSection, int]] = []
    view: ExplorerPage | None = None
    with Samples(site.state.shelf.path(site.state.runs.get(runs[0]))) as samples:
        owners = samples.owners()
    for owner in owners:
        view = viewed(site.state, ExplorerQuery(run=runs, of=[owner.key], per=24))
        for section in view.sections:
            sections.append((OwnerSection(section.owner, section.lines[: site.images]), view.total))
    site.write(file, "site_pictures.html", v=view, sections=sections, picture=site.picture)
