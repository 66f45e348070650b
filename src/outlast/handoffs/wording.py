"""What a text says: of the past or of what is to be done, and which paths and commands it mentions.

Rules about words, for English. They know no other language, and rather miss a text that only looks back than accuse one
that looks forward: any order, duty or open end in it is enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Literal

from outlast.values.text import lists_in

Tense = Literal["past", "forward", "other"]


def word_set(words: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(words.split())


# -- the words ------------------------------------------------------------------------------

_FILE = Path(__file__).with_name("words.txt")
LISTS = {name: word_set(words) for name, words in lists_in(_FILE.read_text("utf-8")).items()}
_BASE = LISTS["base"]
_NOUNS_TOO = LISTS["nouns too"]
_IRREGULAR = LISTS["irregular"]
_SAME_FORM = LISTS["same form"]
_NOT_PAST = LISTS["not past"]
_PAST_IN_EED = LISTS["past in eed"]
_DETERMINERS = LISTS["determiners"]
_PRONOUNS = LISTS["pronouns"]
_AFTER_VERB = _DETERMINERS | _PRONOUNS | LISTS["after verb"]
_PRESENT = LISTS["present"]
_FILLERS = LISTS["fillers"]
_OPENERS = LISTS["openers"]
_CLAUSES = LISTS["clauses"]
_COMPLETED = LISTS["completed"]

# What is said about the time after the handoff: at the beginning of a sentence, and wherever it stands.
_FORWARD_FIRST = re.compile(
    r"""
      \W*\[\s?\]
    | \W*(?:next|todos?|remaining|left|pending|outstanding|open|plan|follow[- ]?ups?|unresolved|blockers?|missing)
        \b[^.:]{0,30}(?::|$)
    | next\b | to\ \w+[^,]{0,60},
    """,
    re.VERBOSE,
)
_FORWARD = re.compile(
    r"""\b(?:
      next\ (?:steps?|actions?|move|up|task|thing|is|for)\b
    | (?:todo|fixme|tbd|to-do|wip|must|should|shall|will|won't|gonna|ought\ to|you'll|i'll|we'll|let's|please)\b
    | (?<!the\ )(?<!no\ )needs?\b
    | (?:has|have|is|are|remains?|left|yet|want|wants|plan|plans|planning|going|about|intend|intends|where|what)\ to\b
    | still\b(?!\ (?:pass|passes|work|works|green|holds?|compiles?|valid|builds?|fine)\b)
    | (?:not\ yet|haven't|hasn't|unfinished|incomplete|untested|half[- ](?:done|finished|way)|remains?|remaining)\b
    | not\ (?:been\ )?(?:done|finished|started|fixed|implemented|tested|merged|pushed|committed|wired|covered)\b
    | (?:waiting|blocked)\ (?:for|on|by)\b | (?:is|are)\ (?:needed|required|missing|next)\b
    | you\ (?:can|could|may|might|want|only|have)\b | (?:would|might)\ be\ (?:good|nice|worth|better|best)\b
    | (?:i|we)\ (?:recommend|suggest|propose)\b
    )""",
    re.VERBOSE,
)
# What looks like it and says that nothing is to come. One of the hints is in whatever it finds.
_NOTHING_HINTS = ("no", "n/a", "n't", "should", "will", "ought", "would")
_NOTHING_MORE = re.compile(
    r"""\b(?:
      (?:next(?:\ steps?|\ actions?)?|todos?|remaining(?:\ work|\ items|\ steps)?|open\ (?:items|questions|issues)
        |follow[- ]?ups?|blockers?|pending|outstanding|left)
        \s{0,9}(?:[:—-]|\n)[\s*-]{0,9}(?:none|nothing|n/a|no)\b[^\n.]*
    | (?:nothing|none|no(?:\ (?:more|further|other|remaining|outstanding|open|known|additional|pending))*)
        (?:\ (?:else|more|further))?
        (?:\ (?:work|steps?|actions?|todos?|issues?|blockers?|follow[- ]?ups?|changes?|tasks?))?
        (?:\ (?:is|are|was|remains?|left|needs?|needed|required|remaining|pending|to\ (?:be\ done|do|fix|add)))+\b
    | no\ (?:more|further|other|remaining|outstanding|open|known|additional|pending)\ \w+
    | no\ (?:longer|need)\b\ (?:needs?|has\ to|must|to|for)\b
    | (?:does|do|did)(?:n't|\ not)\ need\b
    | (?:should|will|ought\ to)(?:\ (?:now|all|just))*
        \ (?:work|pass|be\ (?:fine|ok|okay|good|fixed|done|ready|green|working|stable|resolved|gone|faster|safe))\b
    | (?:so(?:\ that)?\ (?!you|next|the\ next|please|we\b|i\b)(?:[\w']+\ ){1,5}|which\ )
        (?:will|should|would)\b[^.,;:]*
    )""",
    re.VERBOSE,
)
_DONE_HEAD = re.compile(
    r"^\W*(?:done|completed|finished|accomplish\w+|chang(?:es|ed)|(?:complete|change)(?=\s*:)|what (?:i|we) did"
    r"|what (?:was|has been|changed|happened)|history|so far|work done|fixed|added|implemented|this session)\b"
    r"[^:.]{0,40}(?::|$)"
)

# A text that begins so is an order, whatever follows: a verb that is no noun, or one with an article behind it.
_BEGINNING = re.compile(r"([A-Za-z]+) (?:(the|a|an|this|that|these|those|my|our|your|its|their|all|each|every|both) )?")
_ORDERS = _BASE - _NOUNS_TOO - _FILLERS - word_set("complete do open")  # "Open questions: none" orders nothing
_ORDERS_WITH_ARTICLE = _NOUNS_TOO & _BASE - _FILLERS

# How a text is taken apart.
_BULLET = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s")
_MARK = re.compile(r"^\s*(?:[-*+•>#]+|\d{1,3}[.)])\s+")
_TICKED = re.compile(r"\W*\[x\]")
_BETWEEN = re.compile(r"(?<=[.!?;])\s+")  # two sentences
_CLAUSE_END = re.compile(r"[,;—–()]|\s-+\s|\bthen\b")
_WORD = re.compile(r"[a-z][a-z'-]*")
_FENCED = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_QUOTED = re.compile(r"`[^`\n]*`")
_SHORTENED = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf)\.")
_LABEL = re.compile(r"^(?:next(?: steps?| actions?)?|todo|then|resume)\s*:\s*", re.IGNORECASE)
_WRAPPED = re.compile(r"(?<=[^\n]{50})(?<![.!?:;])\n(?=[a-z(])")
_OPTION = re.compile(r"(?<=\s)--?[a-z][\w-]*(?:=\S+)?")  # `--merged` says nothing of what happened
_LIKE_A_PATH = re.compile(r"(?<!\S)[^\s./]*(?:[./]|(?<=Makefile)|(?<=Dockerfile))\S*")  # all that `is_path` may take


# -- the rules ------------------------------------------------------------------------------


def only_past(text: str) -> bool:
    """Whether the text says what happened and nothing of what comes next."""
    if _begins_with_order(text):
        return False
    past = False
    for sentence, done in _sentences(text):
        tense = tense_of(sentence, done)
        if tense == "forward":
            return False
        past = past or tense == "past"
    return past


def _begins_with_order(text: str) -> bool:
    """Whether the first words alone tell, so that no more has to be read."""
    found = _BEGINNING.match(text)
    if found is None:
        return False
    verb, article = found[1].lower(), found[2]
    return verb in _ORDERS or (article is not None and verb in _ORDERS_WITH_ARTICLE)


def tense_of(sentence: str, done: bool = False) -> Tense:
    """What one sentence speaks of. `done`: it stands under a heading such as "What I did"."""
    low = sentence.lower().replace("’", "'")
    if any(map(low.__contains__, _NOTHING_HINTS)):
        low = _NOTHING_MORE.sub(" ", low)
    done = done or bool(_DONE_HEAD.match(low))
    if (not done and _commands(low)) or _FORWARD_FIRST.match(low) or _FORWARD.search(low):
        return "forward"
    return "past" if done or _tells(low) else "other"


def _sentences(text: str) -> Iterator[tuple[str, bool]]:
    """Each sentence, and whether it stands under a heading about what is done."""
    done = blank = False
    for line in _plain(text).splitlines():
        bullet = bool(_BULLET.match(line))
        body = _MARK.sub("", line).strip().strip("*_ ")
        if line.lstrip().startswith("#") or body.endswith(":") or line.strip().startswith("**"):
            done, blank = bool(_DONE_HEAD.match(body.lower())), False
        elif blank and body and not bullet:
            done = False
        blank = not body
        yield from ((sentence, done) for sentence in _BETWEEN.split(body) if sentence)


def _plain(text: str) -> str:
    """The text with code and paths as the word `code`, and wrapped lines made one."""
    if "```" in text or "~~~" in text:
        text = _FENCED.sub(" ", text)
    if "`" in text:
        text = _QUOTED.sub("code", text)
    if any(map(text.__contains__, ("e.g.", "i.e.", "etc.", "vs.", "cf."))):
        text = _SHORTENED.sub(" ", text)
    if "\n" in text:
        text = _WRAPPED.sub(" ", text)
    if " -" in text:
        text = _OPTION.sub(" ", text)
    return _LIKE_A_PATH.sub(_without_path, text)


def _without_path(found: re.Match[str]) -> str:
    word = found[0]
    inner = word.strip("()[]{}<>\"',;.:!?")
    return word.replace(inner, "code", 1) if is_path(inner) else word


def _commands(low: str) -> bool:
    """Whether a clause of the sentence is an order: it begins with a verb as the dictionary has it."""
    for sentence in low.split(":"):
        leading = True
        for words in map(_WORD.findall, _CLAUSE_END.split(sentence)):
            rest = words[sum(1 for _ in takewhile(_FILLERS.__contains__, words)) :]
            if rest and _orders(rest, leading=leading or len(rest) < len(words)):
                return True
            leading = leading and (not rest or rest[0] in _OPENERS)
    return False


def _orders(words: list[str], *, leading: bool) -> bool:
    verb, follows = words[0], words[1] if len(words) > 1 else ""
    if verb in ("don't", "never") or (verb == "do" and follows == "not"):
        return True
    if verb == "be":
        return follows in ("sure", "careful", "aware")
    if verb not in _BASE or words == ["complete"]:
        return False
    if not leading:  # after a comma it may as well be a noun in a list
        return follows in _DETERMINERS or follows in ("it", "them")
    return not (verb in _NOUNS_TOO and _is_subject(words))


def _is_subject(words: list[str]) -> bool:
    """Whether the first word is a noun: "Test suite passed", "Fix for the parser landed"."""
    if words[1:2] and words[1] in _DETERMINERS and words[1] != "code":
        return False
    phrase = list(takewhile(lambda word: word not in _CLAUSES, words[1:7]))
    return any(
        word in ("is", "are", "was", "were", "has", "had", "looks") or _finite(words, at)
        for at, word in enumerate(phrase, 1)
    )


def _tells(low: str) -> bool:
    """Whether the first verb of the sentence is in the past."""
    words = _WORD.findall(low)
    if words in (["complete"], ["all", "set"]) or _TICKED.match(low):
        return True
    for at, word in enumerate(words):
        if word in ("has", "have", "i've", "we've", "they've", "has've"):
            following = _following(words, at)
            return _is_past(following) or following in _SAME_FORM or following == "been"
        if word in _PRESENT:
            return _following(words, at) in _COMPLETED
        if _finite(words, at):
            return True
        if at and _is_present(word) and words[at + 1 : at + 2] and words[at + 1] in _DETERMINERS:
            return False
    return False


def _following(words: list[str], at: int) -> str:
    """The next word that is no adverb, if it comes soon."""
    return next((each for each in words[at + 1 : at + 4] if not _is_adverb(each)), "")


def _finite(words: list[str], at: int) -> bool:
    """Whether the word is a past tense that is used as the verb, not as an adjective: "the failed test"."""
    word, before = words[at], words[at - 1] if at else ""
    after = words[at + 1] if at + 1 < len(words) else ""
    if word in _SAME_FORM:
        return before in ("i", "we", "they")
    if not _is_past(word) and not (word == "complete" and at and not after):
        return False
    if not before or before in _PRONOUNS or word in ("was", "were", "had", "did"):
        return True
    if after == "by" or (before in _OPENERS and after and after not in _DETERMINERS):
        return False
    return not after or after in _AFTER_VERB or _is_adverb(after)


def _is_past(word: str) -> bool:
    if "-" in word:
        head, _, tail = word.rpartition("-")
        return head in ("re", "double", "cherry", "back", "force", "hot") and _is_past(tail)
    if word in _IRREGULAR or word in _PAST_IN_EED:
        return True
    return len(word) > 3 and word.endswith("ed") and not word.endswith("eed") and not _is_state(word)


def _is_state(word: str) -> bool:
    return word in _NOT_PAST or (word.startswith("un") and word not in ("unified", "unlocked", "unpinned", "undid"))


def _is_present(word: str) -> bool:
    return word.endswith("s") and (word[:-1] in _BASE or word.removesuffix("es") in _BASE)


def _is_adverb(word: str) -> bool:
    return word in ("already", "also", "just", "now", "all", "not", "then", "only", "finally") or word.endswith("ly")


def sentences_of(text: str) -> list[str]:
    """The sentences as they are written, without fences and the marks of lists."""
    text = re.sub(r"```.*?(?:```|\Z)", "\n", text, flags=re.DOTALL)
    lines = (re.sub(r"^\s*(?:[-*+•>#]+|\d{1,3}[.)])\s+(?:\[.\]\s+)?", "", line).strip() for line in text.splitlines())
    return [sentence for line in lines for sentence in re.split(r"(?<=[.!?;])\s+", line) if sentence]


def last_order(text: str) -> str:
    """The last sentence that tells the reader to do something; "" when there is none."""
    plain = ((sentence, _plain(sentence)) for sentence in sentences_of(text))
    orders = [sentence for sentence, said in plain if _commands(said.lower()) and tense_of(said) == "forward"]
    return _LABEL.sub("", orders[-1]) if orders else ""


# -- paths and commands in a text --------------------------------------------------------------------

_EXTENSIONS = LISTS["extensions"]
_NO_PATHS = LISTS["no paths"]
_RUNNERS = LISTS["runners"]

_PATH = re.compile(r"[\w@+~./-]+")
_EXTENSION = re.compile(r"[A-Za-z]\w{0,7}")
_GAP = re.compile(r"[\s\"'`(){}\[\]<>,;|=]+")
_LINE = re.compile(r":\d.*")


def is_path(word: str) -> bool:
    """Whether the word is written like a path from a repository's root."""
    if not _PATH.fullmatch(word) or "//" in word or word.lower() in _NO_PATHS:
        return False
    name, _, extension = word.rpartition("/")[2].rpartition(".")
    if "/" in word:
        return bool(name and _EXTENSION.fullmatch(extension)) or word.endswith("/") or word.count("/") > 1
    return bool(name and extension.lower() in _EXTENSIONS) or word in ("Makefile", "Dockerfile")


def paths_in(text: str) -> list[str]:
    """The paths that a text mentions, each once, in their order; without line numbers, inside the root only."""
    maybe = [word for word in _GAP.split(text) if "." in word or "/" in word or "file" in word]  # few words are
    words = [_LINE.sub("", word).lstrip("*").rstrip(".:!?*") for word in maybe]
    inside = [word.removeprefix("./") for word in words if is_path(word) and not word.startswith(("/", "~"))]
    return list(dict.fromkeys(word for word in inside if ".." not in word.split("/")))


def commands_in(text: str) -> list[str]:
    """The commands that a text has in backticks or fences."""
    quoted = re.findall(r"`([^`\n]+)`", text) + re.findall(r"^[ \t]*\$ (.+)$", text, flags=re.MULTILINE)
    return [words for words in map(str.strip, quoted) if words.split(" ")[0] in _RUNNERS or words.startswith("./")]
