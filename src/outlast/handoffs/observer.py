"""Who looks at files and runs checks for a caller.

Where the files are, it is this process: `LOCAL`. A server looks at nothing: it knows what a request carries
(`RequestObserver`), never opens a file that a handoff names and never runs a check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import Struct, field
from msgspec.structs import replace

from outlast.errors import HandoffInvalid, LookFirst, OtherPlace, RunsOnHost
from outlast.files.changes import path_of, text
from outlast.files.git import Stand, root_from
from outlast.files.snapshot import Binding
from outlast.handoffs import unfinished
from outlast.handoffs.binding import bind, broken_must
from outlast.handoffs.evidence import Ran, When, evidence_of
from outlast.handoffs.foreign import digest_of
from outlast.handoffs.handoff import Handoff, encode_handoff, must_key
from outlast.handoffs.sighting import Sighting, check_sighting, checked_binding, lacks, observe
from outlast.handoffs.verdict import Observed, command
from outlast.ledger.verdict import Reason
from outlast.values.ambient import STOP
from outlast.values.codec import decode

if TYPE_CHECKING:  # whoever only runs flows looks at no handoff
    from outlast.files.snapshot import ContentKeeper
    from outlast.handoffs.foreign import Leave
    from outlast.handoffs.handoff import Contract, Evidence, Form
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.live import Executor

Between = Callable[[], None] | None


class LocalObserver:
    """This process looks, and runs the checks."""

    looks = True  # files can be looked at, to tell one place of work from another
    knows_runs = True  # where each of the home works

    def root(self, caller: Caller, given: str | None) -> Path:
        """The folder that paths are relative to."""
        return root_of(caller, given)

    def place(self, caller: Caller, handoff: Handoff, given: str | None) -> Path | None:
        """Where the files of a handoff can be looked at; None when they cannot."""
        if given is None and handoff.source == "run" and handoff.binding is None and self.knows_runs:
            return unfinished.place_of(caller, handoff, self.root(caller, None))
        return place_of(caller, handoff, given)

    def elsewhere(self, caller: Caller, handoff: Handoff) -> str:
        """Where whoever looked is instead, when that is not known to be the handoff's place; "" when nobody did."""
        return text(str(self.root(caller, None)))

    def not_here(self, handoff: Handoff) -> HandoffInvalid | RunsOnHost:
        """The error for checks of a handoff whose files are not here."""
        why = f"the files of {handoff.anchor!r} are not here, so its checks cannot be run"
        return HandoffInvalid("repo_root", why, "name where they are: repo_root=DIR (--repo DIR)")

    def bind(
        self, caller: Caller, contract: Contract, root: Path, keeper: ContentKeeper | None = None
    ) -> Binding | None:
        """What the contract's files are now; the keeper, or the blobs, have their content."""
        return bind(caller.home, contract, root, keeper)

    def observe(self, home: Home, handoff: Handoff, root: Path) -> Observed:
        """What the files of a handoff are now."""
        if handoff.binding is None and not handoff.musts:  # there is nothing to look at
            return Observed(Binding(root=text(str(root)), host=home.process.host))
        return observe(handoff, root)

    def broken(self, home: Home, handoff: Handoff, must: tuple[str, Form], root: Path) -> str:
        """What is wrong with a must, by its field and form, that is a rule about files; "" when it is kept."""
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
        """What comes of each check. Nothing runs without leave for exactly these."""
        from outlast.handoffs.checks import run_checks  # to look at files takes nothing of what runs commands

        if leave.digest != digest_of(about):
            raise AssertionError("the checks are not those for which there is leave")
        forms, stop = about.acceptance_checks, STOP.get()
        return run_checks(executor, forms, root, when=when, by=by, stop=stop, between=between)


LOCAL = LocalObserver()


def observer_of(caller: Caller) -> FileObserver:
    """Who looks at files for a caller: this process, unless whoever made him said otherwise."""
    return LOCAL if caller.observer is None else cast(FileObserver, caller.observer)


def root_of(caller: Caller, given: str | None) -> Path:
    """The folder that paths are relative to, for who acts: see `root_from`. Raises HandoffInvalid."""
    return root_from(given, caller.stands, caller.home.project)


def place_of(caller: Caller, handoff: Handoff, given: str | None) -> Path | None:
    """Where the files of a handoff are looked at: the folder given, else where we are, if that is the same work.

    Nothing else is looked at, wherever it was stored: None when where we are is not known to be its repository. Raises
    HandoffInvalid for a given folder that is not there.
    """
    here, bound = root_of(caller, given), handoff.binding
    return here if given is not None or bound is None else Stand(here).place_of(bound)


# -- a server ----------------------------------------------------------------------------------------


NOWHERE = Path("/nowhere")  # stands for the root where nobody looks


class RequestObserver(Struct, frozen=True):
    """What a request carries, and nothing else.

    `asks`: who sent it can look, and is told at what (LookFirst) instead of going unobserved.
    """

    binding: Binding | None = None
    ran: tuple[Ran, ...] | None = None  # of the checks of what is stored
    sightings: Mapping[str, Sighting] = field(default_factory=dict)  # by the handoff they are of
    asks: bool = False

    @property
    def looks(self) -> bool:
        return False

    def root(self, caller: Caller, given: str | None) -> Path:
        return NOWHERE

    def place(self, caller: Caller, handoff: Handoff, given: str | None) -> Path | None:
        sighting = self._of(handoff)
        return Path(sighting.root) if sighting is not None and sighting.root else None

    def elsewhere(self, caller: Caller, handoff: Handoff) -> str:
        sighting = self._of(handoff)
        return sighting.here if sighting is not None and not sighting.root else ""

    def _of(self, handoff: Handoff) -> Sighting | None:
        """What was seen of this very revision. Raises LookFirst when that can still be done, HandoffInvalid."""
        found = self.sightings.get(handoff.id)
        if self.asks and (found is None or lacks(found, handoff)):
            raise look_first("files", handoff)
        if found is not None:
            check_sighting(found, handoff)
        return found

    def not_here(self, handoff: Handoff) -> HandoffInvalid | RunsOnHost:
        if handoff.id in self.sightings:
            return LOCAL.not_here(handoff)
        return RunsOnHost("run checks", "run them where the files are, and send what came of them: observed=[…]")

    def bind(
        self, caller: Caller, contract: Contract, root: Path, keeper: ContentKeeper | None = None
    ) -> Binding | None:
        if self.binding is not None:
            return checked_binding(caller, self.binding, contract)
        if self.asks:
            raise LookFirst("binding", contract.anchor)
        return None

    def observe(self, home: Home, handoff: Handoff, root: Path) -> Observed:
        sighting = self.sightings[handoff.id]
        kept = {must_key("must_keep", form) for form in handoff.must_keep}
        musts = {key: wrong for key, wrong in sighting.musts.items() if key in kept}
        nothing = Binding(root=text(str(root)), host="")
        return Observed(sighting.binding or nothing, sighting.relation, musts, renamed=sighting.renamed)

    def broken(self, home: Home, handoff: Handoff, must: tuple[str, Form], root: Path) -> str:
        sighting = self._of(handoff)
        return "was not looked at" if sighting is None else sighting.musts.get(must_key(*must), "was not looked at")

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
        stored = about if isinstance(about, Handoff) else None
        sighting = self.sightings.get(stored.id) if stored else None
        ran, seen = (sighting.ran, sighting.binding) if sighting else (self.ran, self.binding)
        if ran is None:
            raise self._unrun(about, stored)
        where = seen.host if seen else ""
        return evidence_of(executor.caller, ran, about, when=when, by=by, where=where)

    def _unrun(self, about: Contract, stored: Handoff | None) -> LookFirst | RunsOnHost:
        if self.asks:
            return look_first("checks", stored) if stored else LookFirst("checks", about.anchor)
        field_name = "observed=[…]" if stored else "ran=[…], or baseline=[…]"
        return RunsOnHost("run checks", f"run them where the files are, and send what came of them: {field_name}")


FileObserver = LocalObserver | RequestObserver  # what is asked about files, and who answers
NOBODY = RequestObserver()


def look_first(what: Literal["files", "checks"], handoff: Handoff) -> LookFirst:
    """The error that tells who can look at what: all of the handoff but its packets."""
    bare = replace(handoff, execution_state_v1=None, execution_packet_v1=None)
    told: dict[str, Any] = decode(encode_handoff(bare))
    return LookFirst(what, handoff.anchor, told)


# -- elsewhere ---------------------------------------------------------------------------------------


def other_place(handoff: Handoff, here: str) -> Reason:
    """The reason that it gives: it weakens, since nobody looked."""
    named = f"name where its files are: {command(handoff, 'recover', '--repo', 'DIR')}"
    advice = f"go there: cd {quote(path_of(_root(handoff)))}; or {named}" if _root(handoff) else named
    return Reason("other_place", handoff.anchor, _place(handoff), here, advice)


def refused(handoff: Handoff, here: str) -> OtherPlace:
    """The error for what would write there."""
    return OtherPlace(handoff.anchor, _place(handoff), here)


def _place(handoff: Handoff) -> str:
    """The repository, as people know it: by a remote, and by where it was."""
    bound = handoff.binding
    if bound is None:
        return f"where its run works{f': {_root(handoff)}' if _root(handoff) else ''}"
    names = [each for each in bound.known_by if "/" in each]
    return f"the repository of {_root(handoff)}" + (f" ({names[0]})" if names else "")


def _root(handoff: Handoff) -> str:
    return handoff.binding.root if handoff.binding else handoff.repo_root or ""
