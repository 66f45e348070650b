"""The eyes of a server: what a request carries of files and checks, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from outlast.errors import HandoffInvalid, LookFirst, RunsOnHost
from outlast.files.changes import text
from outlast.handoffs.handoff import Binding, Contract, Evidence, Form, Handoff, encode_handoff, must_key
from outlast.handoffs.observer import HERE, Between, Eyes, When
from outlast.handoffs.reported import Ran, Sighting, check, checked_binding, evidence_of, lacks
from outlast.handoffs.verdict import Observed
from outlast.values.codec import decode
from outlast.values.frozen import dataclass

if TYPE_CHECKING:
    from outlast.handoffs.foreign import Leave
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.live import Executor

NOWHERE = Path("/nowhere")  # stands for the root where nobody looks


@dataclass(frozen=True, slots=True)
class RequestObserver:
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
            check(found, handoff)
        return found

    def not_here(self, handoff: Handoff) -> HandoffInvalid | RunsOnHost:
        if handoff.id in self.sightings:
            return HERE.not_here(handoff)
        return RunsOnHost("run checks", "run them where the files are, and send what came of them: observed=[…]")

    def bind(self, caller: Caller, contract: Contract, root: Path) -> Binding | None:
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


NOBODY: Eyes = RequestObserver()


def look_first(what: Literal["files", "checks"], handoff: Handoff) -> LookFirst:
    """The error that tells who can look at what: all of the handoff but its packets."""
    bare = replace(handoff, execution_state_v1=None, execution_packet_v1=None)
    told: dict[str, Any] = decode(encode_handoff(bare))
    return LookFirst(what, handoff.anchor, told)
