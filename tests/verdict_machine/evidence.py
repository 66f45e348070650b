"""Which evidence counts, by the rules of docs/evidence.md: `(E5)` is rule 5 of that page."""

from typing import NamedTuple


class Content(NamedTuple):
    """What a revision is about, as it is where somebody stands."""

    files: tuple[tuple[str, str], ...]
    commit: int | None
    others: tuple[tuple[str, str], ...]


class Evidence(NamedTuple):
    """What came of a check: it was run, of which content; or somebody says so."""

    check: str
    passed: bool
    ran: bool
    content: Content | None = None
    at_store: bool = False
    by: str = ""  # whose word it is; nobody's if Outlast itself ran it

    @property
    def word(self) -> str:
        """What an acceptance is bound to: the same result, said by the same."""
        return f"{'passed' if self.passed else 'failed'} {self.by}"


REASONS = {
    "contradicted": "evidence_contradicted",
    "said and denied": "evidence_contradicted",
    "regressed": "check_regressed",
    "failed before": "failed_before",
    "reported": "self_reported",
}
RAN = ("passed", "failed", "regressed", "contradicted")


def came_of(words: list[Evidence], content: Content | None) -> tuple[str, int]:
    """What is told of a check, and which word counts of all that was said; the content is None where nobody looked."""
    runs = [at for at, each in enumerate(words) if each.ran and not each.at_store]  # (E1)
    if content is None:
        return _unseen(words, runs[-1] if runs else -1)  # (E4)
    here = [at for at in runs if content and words[at].content == content]
    last_failed = bool(runs) and not words[runs[-1]].passed
    if last_failed and not words[runs[-1]].content:
        here = runs
    if here:  # (E2) (E3)
        return (_passed if words[here[-1]].passed else _failed)(words, here[-1]), here[-1]
    if last_failed and _failed(words, runs[-1]) != "failed":
        return "failed before", runs[-1]  # (E7)
    return _reported(words, content), _last_said(words, content)


def _unseen(words: list[Evidence], last: int) -> tuple[str, int]:
    """(E4) The worst that it may be: on what the last run ran on, or what was said of since; and nothing passes."""
    contents = [words[last].content] if last >= 0 else []
    contents += [each.content for each in reversed(words[last + 1 :])]
    found = [came_of(words, each) for each in contents if each]
    if not found or (last >= 0 and not words[last].content):
        failed = last >= 0 and not words[last].passed
        found = [(_failed(words, last), last) if failed else (_reported(words, None), len(words) - 1), *found]
    found = [(_reported(words, None), len(words) - 1) if came == "passed" else (came, at) for came, at in found]
    worst = [("contradicted", "said and denied", "regressed"), ("reported", "failed before")]
    return next((each for codes in worst for each in found if each[0] in codes), found[0])


def _failed(words: list[Evidence], at: int) -> str:
    """(E5)"""
    passes = [each for each in range(at) if words[each].ran and words[each].passed]
    since = words[passes[-1] + 1 :] if passes else words
    if any(each.passed and not each.ran for each in since):
        return "contradicted"
    return "regressed" if passes else "failed"


def _passed(words: list[Evidence], at: int) -> str:
    """(E6)"""
    against = [each for each in words[at + 1 :] if not each.passed and each.content in (None, words[at].content)]
    return "contradicted" if against else "passed"


def _reported(words: list[Evidence], content: Content | None) -> str:
    """(E8)"""
    runs = [at for at, each in enumerate(words) if each.ran]
    said = words[runs[-1] + 1 :] if runs else words
    if not said:
        return "unrun"
    last = words[_last_said(words, content)]
    alike = {None, last.content} if last.content else {each.content for each in said}
    of_now = content is None or last.content in (None, content)
    disagree = any(each.passed != last.passed and each.content in alike for each in said)
    return "said and denied" if of_now and disagree else "reported"


def _last_said(words: list[Evidence], content: Content | None) -> int:
    """(E8) The last word, or the last that is about what is there now."""
    runs = [at for at, each in enumerate(words) if each.ran]
    said = range(runs[-1] + 1 if runs else 0, len(words))
    here = [at for at in said if content is None or words[at].content in (None, content)]
    return (here or list(said) or [len(words) - 1])[-1]
