"""Eyes: who looks at files and runs checks.

Where the files are, it is this process: `HERE`. A server has no eyes of its own: it knows what a request carries
(`Given`, in `given_observer.py`), never opens a file that a handoff names and never runs a check.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, cast

from outlast.errors import HandoffInvalid, RunsOnHost
from outlast.values.ambient import STOP

if TYPE_CHECKING:  # whoever only runs flows looks at no handoff
    from outlast.handoffs.foreign import Leave
    from outlast.handoffs.handoff import Binding, Contract, Evidence, Form, Handoff
    from outlast.handoffs.verdict import Observed
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.live import Executor

When = Literal["store", "recover", "verify", "settle"]
Between = Callable[[], None] | None


class Eyes(Protocol):
    """What is asked about files, and who answers."""

    @property
    def looks(self) -> bool:
        """Whether files can be looked at, to tell one place of work from another."""

    def root(self, caller: Caller, given: str | None) -> Path:
        """The folder that paths are relative to."""

    def place(self, caller: Caller, handoff: Handoff, given: str | None) -> Path | None:
        """Where the files of a handoff can be looked at; None when they cannot."""

    def elsewhere(self, caller: Caller, handoff: Handoff) -> str:
        """Where whoever looked is instead, when that is not known to be the handoff's place; "" when nobody did."""

    def not_here(self, handoff: Handoff) -> HandoffInvalid | RunsOnHost:
        """The error for checks of a handoff whose files are not here."""

    def bind(self, caller: Caller, contract: Contract, root: Path) -> Binding | None:
        """What the contract's files are now, content that is kept as blobs."""

    def observe(self, home: Home, handoff: Handoff, root: Path) -> Observed:
        """What the files of a handoff are now."""

    def broken(self, home: Home, handoff: Handoff, must: tuple[str, Form], root: Path) -> str:
        """What is wrong with a must, by its field and form, that is a rule about files; "" when it is kept."""

    def run_checks(
        self,
        executor: Executor,
        about: Contract,
        root: Path,
        *,
        leave: Leave,
        when: When,
        by: str,
        between: Between = None,
    ) -> list[Evidence]:
        """What comes of each check. Nothing runs without leave for exactly these."""


class Here:
    """This process looks, and runs the checks."""

    looks = True
    knows_runs = True  # where each of the home works

    def root(self, caller: Caller, given: str | None) -> Path:
        from outlast.handoffs.place import root_of

        return root_of(caller, given)

    def place(self, caller: Caller, handoff: Handoff, given: str | None) -> Path | None:
        from outlast.handoffs.place import place_of

        if given is None and handoff.source == "run" and handoff.binding is None and self.knows_runs:
            from outlast.handoffs import unfinished

            return unfinished.place_of(caller, handoff, self.root(caller, None))
        return place_of(caller, handoff, given)

    def elsewhere(self, caller: Caller, handoff: Handoff) -> str:
        from outlast.files.changes import text

        return text(str(self.root(caller, None)))

    def not_here(self, handoff: Handoff) -> HandoffInvalid | RunsOnHost:
        why = f"the files of {handoff.anchor!r} are not here, so its checks cannot be run"
        return HandoffInvalid("repo_root", why, "name where they are: repo_root=DIR (--repo DIR)")

    def bind(self, caller: Caller, contract: Contract, root: Path) -> Binding | None:
        from outlast.handoffs.binding import bind

        return bind(caller.home, contract, root)

    def observe(self, home: Home, handoff: Handoff, root: Path) -> Observed:
        from outlast.files.changes import text
        from outlast.handoffs.binding import observe
        from outlast.handoffs.handoff import Binding
        from outlast.handoffs.verdict import Observed

        if handoff.binding is None and not handoff.musts:  # there is nothing to look at
            return Observed(Binding(root=text(str(root)), host=home.process.host))
        return observe(handoff, root)

    def broken(self, home: Home, handoff: Handoff, must: tuple[str, Form], root: Path) -> str:
        from outlast.handoffs.must_files import broken_must

        return broken_must(*must, handoff.binding, root)

    def run_checks(
        self,
        executor: Executor,
        about: Contract,
        root: Path,
        *,
        leave: Leave,
        when: When,
        by: str,
        between: Between = None,
    ) -> list[Evidence]:
        from outlast.handoffs.checks import run_checks
        from outlast.handoffs.foreign import digest_of

        if leave.digest != digest_of(about):
            raise AssertionError("the checks are not those for which there is leave")
        forms, stop = about.acceptance_checks, STOP.get()
        return run_checks(executor, forms, root, when=when, by=by, stop=stop, between=between)


HERE: Eyes = Here()


def observer_of(caller: Caller) -> Eyes:
    """Who looks at files for a caller: whoever makes one gives it eyes."""
    return cast(Eyes, caller.observer)
