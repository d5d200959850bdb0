"""Papers, each whole: what runs one takes, what it prints, and a page that holds both side by side.

A reproduction is a directory, and every run of it an ordinary one::

    DIR/reproduction.json            what was asked, and what became of each run
    DIR/runs/MODEL-SUITE/            a run directory, as an audit writes it; papers share its pictures
    DIR/paper.html                   the page of the paper; of several papers DIR/PAPER/paper.html
    DIR/tables/*.csv, *.tex          each table of the page
    DIR/figures/*.svg, *.pdf         each of its figures

What a paper is lies in one file of ``data``: its runs, and its tables and figures in the order of the print. Nothing
else here knows a paper by its name.
"""

from clinometer.papers.paper import Paper, load_paper, paper_names

__all__ = ["Paper", "load_paper", "paper_names"]
