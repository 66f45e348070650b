"""What somebody says so that a run goes on although something speaks against it."""

from __future__ import annotations

from collections.abc import Iterable

from outlast.errors import NameInvalid
from outlast.values.frozen import NamedTuple


class Acceptance(NamedTuple):
    """What somebody says for a resume: contested reasons they accept (`code` or `code:subject`), and why."""

    codes: tuple[str, ...] = ()
    why: str = ""
    partial: str = ""  # keep, restore: what to do with partial work; empty: as the steps declare

    def takes(self, code: str, subject: str) -> bool:
        return code in self.codes or f"{code}:{subject}" in self.codes


NOTHING_ACCEPTED = Acceptance()


def supposed(accept: Iterable[str], partial: str | None) -> Acceptance:
    """What a resume would take upon itself: for who only asks what it would do. Raises NameInvalid."""
    if partial not in (None, "keep", "restore"):
        raise NameInvalid("partial", str(partial), "use keep or restore")
    return Acceptance((accept,) if isinstance(accept, str) else tuple(accept), "", partial or "")
