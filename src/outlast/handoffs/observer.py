"""Eyes: who looks at files and runs checks.

Where the files are, it is this process: `HERE`. A server has no eyes of its own: it knows what a request carries
(`Given`, in `given_observer.py`), never opens a file that a handoff names and never runs a check.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from outlast.errors import HandoffInvalid, RunsOnHost

if TYPE_CHECKING:  # whoever only runs flows looks at no handoff
    from outlast.handoffs.foreign import Leave
    from outlast.handoffs.handoff import Binding, Contract, Evidence, Form, Handoff
    from outlast.handoffs.verdict import Observed
    from outlast.home.home import Runtime

When = Literal["store", "recover", "verify", "settle"]
Between = Callable[[], None] | None


class Eyes(Protocol):
    """What is asked about files, and who answers."""

    @property
    def looks(self) -> bool:
        """Whether files can be looked at, to tell one place of work from another."""

    def root(self, runtime: Runtime, given: str | None) -> Path:
        """The folder that paths are relative to."""

    def place(self, runtime: Runtime, handoff: Handoff, given: str | None) -> Path | None:
        """Where the files of a handoff can be looked at; None when they cannot."""

    def not_here(self, handoff: Handoff) -> HandoffInvalid | RunsOnHost:
        """The error for checks of a handoff whose files are not here."""

    def bind(self, runtime: Runtime, contract: Contract, root: Path) -> Binding | None:
        """What the contract's files are now, content that is kept as blobs."""

    def observe(self, runtime: Runtime, handoff: Handoff, root: Path) -> Observed:
        """What the files of a handoff are now."""

    def broken(self, runtime: Runtime, handoff: Handoff, form: Form, root: Path) -> str:
        """What is wrong with a must that is a rule about a file; "" when it is kept."""

    def run_checks(
        self,
        runtime: Runtime,
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

    def root(self, runtime: Runtime, given: str | None) -> Path:
        from outlast.files.root import root_of

        return root_of(runtime, given)

    def place(self, runtime: Runtime, handoff: Handoff, given: str | None) -> Path | None:
        from outlast.files.root import place_of

        return place_of(runtime, handoff, given)

    def not_here(self, handoff: Handoff) -> HandoffInvalid | RunsOnHost:
        why = f"the files of {handoff.anchor!r} are not here, so its checks cannot be run"
        return HandoffInvalid("repo_root", why, "name where they are: repo_root=DIR (--repo DIR)")

    def bind(self, runtime: Runtime, contract: Contract, root: Path) -> Binding | None:
        from outlast.handoffs.binding import bind

        return bind(runtime, contract, root)

    def observe(self, runtime: Runtime, handoff: Handoff, root: Path) -> Observed:
        from outlast.files.changes import text
        from outlast.handoffs.binding import observe
        from outlast.handoffs.handoff import Binding
        from outlast.handoffs.verdict import Observed

        if handoff.binding is None and not handoff.must_keep:  # there is nothing to look at
            return Observed(Binding(root=text(str(root)), host=runtime.process.host))
        return observe(handoff, root)

    def broken(self, runtime: Runtime, handoff: Handoff, form: Form, root: Path) -> str:
        from outlast.files.rules import broken_rule
        from outlast.handoffs.contract import rule_of

        rule = rule_of(form)
        return broken_rule(root, rule) if rule is not None else ""

    def run_checks(
        self,
        runtime: Runtime,
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
        from outlast.values.cancel import STOP

        if leave.digest != digest_of(about):
            raise AssertionError("the checks are not those for which there is leave")
        forms, stop = about.acceptance_checks, STOP.get()
        return run_checks(runtime, forms, root, when=when, by=by, stop=stop, between=between)


HERE: Eyes = Here()
