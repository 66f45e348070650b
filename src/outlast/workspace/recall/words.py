"""Words: how a text becomes the words it is found by, the same for what is kept and for what is asked.

A word is a run of letters and digits, folded: no case, no accents. A compound such as `exportSerializer` also counts by
its parts. Writing without spaces (Chinese, Japanese, Korean, Thai) counts by single characters and by pairs of them.
Endings are left to whoever stems the words. Any text is fine, also what is not a valid one; what has no end, such as
encoded bytes, is words of 64 characters.
"""

from __future__ import annotations

import re
import unicodedata

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003ffff"
)
_SIGNS = "\u0900-\u0963\u0966-\u0dff"  # the scripts of India write vowels as signs that belong to the word
_PLAIN = re.compile(r"[A-Za-z0-9]{1,64}")
_ANY = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])(?:[^\W_]|[{_SIGNS}])){{1,64}}")
_RUN = re.compile(rf"[{_UNSPACED}]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

# Words that hold English sentences together or ask, and say nothing of what is asked about.
_FUNCTION = """
a about above after again all also am an and any are as at be because been before being below between both but
by can could d did do does doing don down during each few for from further had has have having he her here hers
herself him himself his how i if in into is it its itself just ll m me more most my myself no nor not now of off
on once only or other our ours ourselves out over own re s same she should so some such t than that the their
theirs them themselves then there these they this those through to too under until up ve very was we were what
when where which while who whom whose why will with would you your yours yourself yourselves
"""
FUNCTION_WORDS = frozenset(_FUNCTION.split())

# Words by which English says when something was, or for how long.
_TIME = """
yesterday today tonight tomorrow ago last next since recently morning weekend day days week weeks month months
year years hour hours monday tuesday wednesday thursday friday saturday sunday january february march april june
july august september october november december
"""
TIME_WORDS = frozenset(_TIME.split())


def words_of(text: str) -> list[str]:
    """The words of a text in their order, folded; compounds also by their parts, unspaced writing by characters."""
    if text.isascii():
        found = _PLAIN.findall(text)
        return [part for word in found for part in _with_parts(word)] if _has_compounds(found) else _lower(found)
    folded = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))
    return [part for word in _ANY.findall(folded) for part in _by_script(word)]


def _lower(found: list[str]) -> list[str]:
    return " ".join(found).lower().split(" ") if found else []


def _has_compounds(found: list[str]) -> bool:
    return not all(word.islower() or word.istitle() or word.isupper() or word.isdigit() for word in found)


def _by_script(word: str) -> list[str]:
    if not _RUN.match(word):
        return _with_parts(word)
    return [*word, *(word[at : at + 2] for at in range(len(word) - 1))]


def _with_parts(word: str) -> list[str]:
    whole = word.casefold()
    if word.islower() or word.istitle() or word.isupper() or word.isdigit():
        return [whole]
    parts = _PARTS.findall(word)
    return [whole, *(part.lower() for part in parts)] if len(parts) > 1 else [whole]
