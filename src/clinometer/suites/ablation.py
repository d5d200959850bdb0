"""Prompts with one word left out: what is left out together, and what is left of the prompt.

"a photo of a nurse" without "photo" would be "a of a nurse" to the letter: no prompt that anybody writes, and what a
model makes of it says more about broken grammar than about "photo". So, of English prompts, a content word is left out
with what only served it. Where it is the only content word between function words, those before it go too; function
words that come to stand at the beginning go; and a or an follows the word that comes next::

    a photo of a nurse         without photo   a nurse
                               without nurse   a photo
    an image of a chief cook   without chief   an image of a cook          without image   a chief cook

Function words (articles, prepositions, conjunctions, forms of *to be*) are never left out by themselves. Pronouns and
possessives are content: they may name a group. Of a prompt in another language each word between spaces is left out to
the letter. A phrase, several words or a word of a language without spaces, is left out as one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_FUNCTION_WORDS: Final = frozenset(
    "a an the of in on at by with for to from as into onto and or but is are was were be being that which who".split()  # noqa: SIM905 - words are read
)
_LEADING: Final = _FUNCTION_WORDS - {"a", "an", "the"}
"""Function words with which no prompt begins."""

_WORD: Final = re.compile(r"\d+(?:[.,]\d+)+|\w+(?:['’-]\w+)*")
_VOWEL_SOUND: Final = re.compile(r"(?!uni|us[ei]|eu|one)[aeiou]|hour|hon[eo]|heir", re.IGNORECASE)


@dataclass(frozen=True)
class Ablation:
    """A prompt without one of its words, or of its phrases.

    Attributes
    ----------
    word : what was left out, as written in the prompt; numbered where it occurs again, ``big (2)``.
    start, stop : its position in the whole prompt.
    prompt : what is left.
    """

    word: str
    start: int
    stop: int
    prompt: str


def ablations(prompt: str, phrases: Sequence[str] = (), *, language: str | None = None) -> tuple[Ablation, ...]:
    """Return the prompts without one content word, or one of ``phrases``, at a time; none where nothing would be left.

    Without a ``language`` the prompt is taken to be English. See the module for the rule.

    >>> [(each.word, each.prompt) for each in ablations("a photo of an old nurse")]
    [('photo', 'an old nurse'), ('old', 'a photo of a nurse'), ('nurse', 'a photo of an old')]
    >>> [each.prompt for each in ablations("an image of a chief executive officer", ["chief executive officer"])]
    ['a chief executive officer', 'an image']
    """
    english = (language or "en").lower().split("-")[0] == "en"
    units = _units(prompt, phrases, whole_words=english)
    content = [not english or text.lower() not in _FUNCTION_WORDS for text, *_ in units]
    left_out, seen = [], dict[str, int]()
    for at, (text, start, stop) in enumerate(units):
        if not content[at]:
            continue
        seen[text] = seen.get(text, 0) + 1
        first = start
        adjoins_content = (  # a comma parts two words
            (at > 0 and content[at - 1] and not prompt[units[at - 1][2] : start].strip())
            or (at + 1 < len(units) and content[at + 1] and not prompt[stop : units[at + 1][1]].strip())
        )
        if english and not adjoins_content:
            before = next((i for i in range(at - 1, -1, -1) if content[i]), -1)
            first = units[before + 1][1]
        rest = _tidied(prompt[:first] + prompt[stop:], prompt, english=english)
        if rest:
            left_out.append(Ablation(text if seen[text] == 1 else f"{text} ({seen[text]})", start, stop, rest))
    return tuple(left_out)


def _units(prompt: str, phrases: Sequence[str], *, whole_words: bool) -> list[tuple[str, int, int]]:
    """Split a prompt into phrases and words, each with its place; of phrases that overlap the longer one counts."""
    taken: list[tuple[int, int]] = []
    for phrase in sorted(phrases, key=len, reverse=True):
        pattern = rf"(?<!\w){re.escape(phrase)}(?!\w)" if whole_words else re.escape(phrase)
        for match in re.finditer(pattern, prompt, re.IGNORECASE):
            if all(match.end() <= start or stop <= match.start() for start, stop in taken):
                taken.append(match.span())
    words = [match.span() for match in _WORD.finditer(prompt)]
    words = [(a, b) for a, b in words if all(b <= start or stop <= a for start, stop in taken)]
    return [(prompt[start:stop], start, stop) for start, stop in sorted([*taken, *words])]


def _tidied(text: str, whole: str, *, english: bool) -> str:
    """Return what is left of ``whole`` as a prompt, without the commas and function words of what was left out."""
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r" ?([,;:])[\s,;:]*(?=[,;:])", "", text)
    text = re.sub(r" ([,;:.])", r"\1", text).strip(" ,;:-")
    if not english:
        return text
    while (first := text.partition(" ")[0]).lower() in _LEADING:
        text = text[len(first) :].strip(" ,;:-")
    if all(word.lower() in _FUNCTION_WORDS for word in _WORD.findall(text)):
        return ""

    def article(match: re.Match[str]) -> str:
        if re.search(rf"\b{match[1]} {match[2]}\b", whole):  # as the prompt's author wrote it: an hour, a unit
            return match[0]
        right = "an" if _VOWEL_SOUND.match(match[2]) else "a"
        return f"{right.capitalize() if match[1][0].isupper() else right} {match[2]}"

    return re.sub(r"\b(a|an) (\w+)", article, text, flags=re.IGNORECASE)
