"""Every pattern takes time in proportion to a text's length, whatever the text: it may be a stranger's."""

import ast
import importlib
import re
from itertools import product
from pathlib import Path
from time import thread_time

import pytest

import clinometer

PLACE = Path(clinometer.__file__).parent
ROOMS = ("models", "pipeline", "runs", "_secrets.py")
PIECES = (
    " ", "a", "!", "A", "0", "/", ".", "-", "_", "\n", "```", "<", "[", "![", "](", "{", "{\"", "of ", "a an of  ",
    "data:image/", "data:image/png;base64,", "iVBORw0KGgo", "http://", "://a:", "<think>", "<answer>", "\\boxed{",
    "<|", "0.", "e5", "key=", "[@", "it is the ", "<img ", "answer:", "a-", "0-of-",
)  # fmt: skip
ENDS = ("!x\n",)


def flat(value):
    if isinstance(value, dict | tuple | list):
        return [each for entry in (value.values() if isinstance(value, dict) else value) for each in flat(entry)]
    return [value]


def used():
    """Patterns by their module, with the ways in which they are used: what is only matched whole need not be sought."""
    files = [
        file for room in ROOMS for file in ([PLACE / room] if ".py" in room else sorted((PLACE / room).rglob("*.py")))
    ]
    texts = {file: file.read_text() for file in files}
    everything = "\n".join(texts.values())
    for file, text in texts.items():
        if not re.search(r"^import re$", text, re.MULTILINE):
            continue
        name = ".".join(file.relative_to(PLACE.parent).with_suffix("").parts).removesuffix(".__init__")
        for key, value in vars(importlib.import_module(name)).items():
            for pattern in flat(value):
                if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str):
                    ways = re.findall(rf"\b{key}\.(\w+)\(|re\.(\w+)\({key}\b", everything)
                    yield name, pattern, {way for each in ways for way in each if way} or {"search"}
        for call in ast.walk(ast.parse(text)):
            if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("re.") and call.args:
                literal, way = call.args[0], ast.unparse(call.func).removeprefix("re.")
                if way != "compile" and isinstance(literal, ast.Constant) and isinstance(literal.value, str):
                    flags = re.DOTALL if "DOTALL" in ast.unparse(call) else re.NOFLAG
                    yield name, re.compile(literal.value, flags), {way}


def seconds(pattern, text, ways):
    began = thread_time()
    for way in ways:
        if way in ("match", "fullmatch"):
            getattr(pattern, way)(text)
        else:
            pattern.sub("", text)
    return thread_time() - began


def is_linear(pattern, text_of, ways=("search",)):
    """Double a text until it takes a while, or is long: four times the text takes no more than eight times as long.

    A square would take sixteen times as long. What is over in a moment even so is not compared. Of several tries the
    fastest counts: a busy machine makes a short one longer than it is.
    """
    for n in (500, 1_000, 2_000, 4_000, 16_000):
        if seconds(pattern, text_of(n), ways) > 0.05:
            long, short = (min(seconds(pattern, text_of(m), ways) for _ in range(5)) for m in (n, n // 4))
            return long < 8 * short
    return True


def test_every_pattern_is_linear():
    hostile = [lambda n, piece=piece, end=end: piece * (n // len(piece)) + end for piece, end in product(PIECES, ENDS)]
    hostile += [lambda n, one=one, other=other: one + other * n + one for one in ("a", "```", "<") for other in " !0"]
    patterns = list(used())
    assert len(patterns) > 40
    slow = {
        f"{name}: {pattern.pattern} of {text(40)!r}"
        for name, pattern, ways in patterns
        for text in hostile
        if not is_linear(pattern, text, ways)
    }
    assert not slow


@pytest.mark.parametrize("pattern", [r"^[\s\W]+|[\s\W]+$", r"(.*?)\s*x", r"```(?:json)?\s*(.*?)\s*```"])
def test_one_that_is_not_is_found(pattern):
    hostile = [lambda n: "a" + "!" * n + "a", lambda n: "```" + " " * n + "x", lambda n: "a" + " " * n + "y"]
    assert not all(is_linear(re.compile(pattern, re.DOTALL), text) for text in hostile)
