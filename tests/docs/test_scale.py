"""The page on large runs says what the code does."""

import inspect

import clinometer as cm
from clinometer.pipeline.engines import MOST_DEATHS, Engine
from clinometer.runs import leases
from tests.docs.pages import blocks, page

PAGE = page("docs/scale.md")


def test_its_python_asks_for_what_there_is(monkeypatch):
    asked, signature = [], inspect.signature(cm.audit)
    monkeypatch.setattr(cm, "audit", lambda **options: asked.append(signature.bind(**options)), raising=False)
    (script,) = blocks(PAGE, "python")
    exec(compile(script, "docs/scale.md", "exec"), {"__name__": "__main__"})
    assert [each.arguments["workers"] for each in asked] == [2]
    exec(compile(script, "docs/scale.md", "exec"), {"__name__": "__mp_main__"})  # as a worker imports it
    assert len(asked) == 1


def test_its_numbers_are_the_codes():
    assert MOST_DEATHS == 3
    assert "Three workers over one part" in PAGE
    assert leases.LIFETIME == 60
    assert leases.LIFETIME / leases.SIGNS == 20
    assert "every twenty seconds" in PAGE
    assert "ends after a minute" in PAGE


def test_it_names_what_an_engine_has():
    assert {name for name in vars(Engine) | Engine.__annotations__ if not name.startswith("_")} == {
        "workers",
        "map",
        "close",
    }
    assert "`workers`, `map` and `close`" in PAGE
