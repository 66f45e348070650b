"""Which evidence counts: one pure function of what was said of a check, in order, and of the content now.

The rule in words is in docs/evidence.md. What to think of what counts is `verdict.py`.

What became of the evidence that a handoff rests on, for its verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from outlast.handoffs.handoff import Binding, Bound, Evidence
from outlast.handoffs.verdict import HandoffFacts
from outlast.values.codec import encode
from outlast.values.digest import digest
from outlast.values.frozen import dataclass

if TYPE_CHECKING:
    from outlast.home.home import Home


Came = Literal["unrun", "reported", "passed", "failed", "regressed", "contradicted", "failed_before"]


@dataclass(frozen=True, slots=True)
class CountedCheck:
    """What came of one check, as far as it counts now."""

    came: Came
    word: Evidence | None = None  # what counts; of `failed_before` and `reported` the last that is known
    against: Evidence | None = None  # what it is not in line with: a pass before, or somebody's word

    @property
    def ran(self) -> bool:
        """Whether it was run on the content as it is now."""
        return self.word is not None and self.word.runner != "self" and self.came != "failed_before"


def content_of(found: Binding) -> str:
    """A digest of what a check may depend on: targets, files of musts, environment, commit and other changed files.

    "" where nothing was looked at: then it is not known what it ran on.
    """
    if not (found.files or found.musts or found.environment or found.commit):
        return ""
    files = [_words(each) for each in (found.files, found.musts, found.environment)]
    return digest(encode([*files, found.commit, found.dirty]))


def content_during(before: Binding, after: Binding) -> str:
    """What checks ran on, that was looked at before and after; "" when it changed meanwhile.

    They may write files of their own: what only git sees besides counts as they left it.
    """
    return content_of(after) if content_of(replace(before, dirty=after.dirty)) == content_of(after) else ""


def _words(files: Mapping[str, Bound]) -> list[list[str]]:
    """Files by what makes two of them the same, and what links lead to: line ends do not count."""
    unreadable = ("", "unreadable")
    return [
        [path, each.mode, each.blob or each.digest, unreadable[each.why == "unreadable"], each.leads]
        for path, each in sorted(files.items())
    ]


def counted(words: Sequence[Evidence], content: str | None) -> CountedCheck:
    """What counts of what was said of one check, oldest first; `content` is None where nobody looked.

    A run (by a runner, or by a client, whose word weighs less) counts on the content that it ran on, until it is run
    again there. What came of it at store is what later runs are held against, and no run since.
    """
    runs = [each for each in words if each.when != "store" and each.runner != "self"]
    if content is None:
        return _unseen(words, runs)
    run = _run(runs, content)
    if run is not None:
        return _passed(words, run) if run.passed else _failed(words, run)
    if runs and not runs[-1].passed:  # on other content
        was = _failed(words, runs[-1])
        if was.came != "failed":
            return CountedCheck("failed_before", runs[-1], was.against)
    return _reported(words, content)


def _unseen(words: Sequence[Evidence], runs: Sequence[Evidence]) -> CountedCheck:
    """What counts where nobody looked: the worst of what may be there, and no pass.

    That is what the last run ran on, and what anything that was said since is about.
    """
    said = _after(words, runs[-1]) if runs else words
    known = [*(each.content for each in runs[-1:]), *(each.content for each in reversed(said) if each.content)]
    found = [counted(words, each) for each in dict.fromkeys(known)] or [_reported(words, None)]
    return max((_reported(words, None) if each.came == "passed" else each for each in found), key=_weight)


def _weight(counts: CountedCheck) -> int:
    """How much it speaks against going on."""
    return {"regressed": 2, "contradicted": 2, "reported": 1, "failed_before": 1}.get(counts.came, 0)


def _run(runs: Sequence[Evidence], content: str | None) -> Evidence | None:
    """The run that counts. Where it is not known what the last one ran on, a failure that nobody ran again does."""
    if runs and not runs[-1].passed and not runs[-1].content:
        return runs[-1]
    here = [each for each in runs if content and each.content == content]
    return _newest(here, "runner") or _newest(here, "client")


def _newest(runs: Sequence[Evidence], runner: str) -> Evidence | None:
    return next((each for each in reversed(runs) if each.runner == runner), None)


def _passed(words: Sequence[Evidence], run: Evidence) -> CountedCheck:
    """It passes, unless somebody has said since that it fails."""
    later = _after(words, run)
    against = next((each for each in reversed(later) if not each.passed and _alike(each, run.content)), None)
    return CountedCheck("contradicted" if against else "passed", run, against)


def _failed(words: Sequence[Evidence], run: Evidence) -> CountedCheck:
    """It fails: against somebody's word that it passes, against a run that passed, or as it ever did."""
    before = [each for each in _before(words, run) if each.runner != "self" and each.passed]
    unproven = _after(words, before[-1]) if before else words
    said = [each for each in unproven if each.runner == "self" and each.passed]
    said += [each for each in _after(words, run) if each.passed and each.content and each.content == run.content]
    if said:
        return CountedCheck("contradicted", run, said[-1])
    return CountedCheck("regressed", run, before[-1]) if before else CountedCheck("failed", run)


def _reported(words: Sequence[Evidence], content: str | None) -> CountedCheck:
    """What is only said, since the last run; two who disagree about the same content contradict each other."""
    runs = [each for each in words if each.runner != "self"]
    claims = _after(words, runs[-1]) if runs else words
    if not claims:
        return CountedCheck("unrun")
    last = ([each for each in claims if content is None or _alike(each, content)] or claims)[-1]
    others = [each for each in claims if each.passed != last.passed and not (each.when == "store" and last.passed)]
    same = content is None or _alike(last, content)
    against = next((each for each in reversed(others) if same and _alike(each, last.content)), None)
    return CountedCheck("contradicted" if against else "reported", last, against)


def _alike(word: Evidence, content: str) -> bool:
    """Whether a word may be about this content: that of one of them is not known, or they are equal."""
    return not word.content or not content or word.content == content


def _before(words: Sequence[Evidence], one: Evidence) -> Sequence[Evidence]:
    return words[: _place(words, one)]


def _after(words: Sequence[Evidence], one: Evidence) -> Sequence[Evidence]:
    return words[_place(words, one) + 1 :]


def _place(words: Sequence[Evidence], one: Evidence) -> int:
    return next(place for place in range(len(words) - 1, -1, -1) if words[place] is one)


def weighed(home: Home, known: HandoffFacts) -> HandoffFacts:
    """The recorded facts with what became of what the handoff refers to and rests on. Most rest on nothing."""
    linked = bool(known.handoff.refs) or bool(home.store.read(lambda look: look.links_after(0, 1)))
    if known.broken or not linked:
        return known
    from outlast.workspace.why import against_handoff

    return against_handoff(home, known)
