"""Handoffs of a server: the surface of `outlast.handoff`, its files looked at here."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from outlast.clock import micros
from outlast.errors import HandoffAmbiguous, HandoffInvalid, HandoffNotFound, ReplyRefused
from outlast.files.git import Stand, branch_of, relative_to
from outlast.files.snapshot import Binding
from outlast.handoffs import settle as settling
from outlast.handoffs.claim import Recovering
from outlast.handoffs.contract import contract_of
from outlast.handoffs.find import HandoffQuery
from outlast.handoffs.foreign import check_agree
from outlast.handoffs.handoff import (
    CONTRACT_FIELDS,
    Contract,
    Handoff,
    HandoffClaim,
    Listed,
    Near,
    Recovered,
    Settlement,
)
from outlast.handoffs.observer import observer_of
from outlast.handoffs.recover import check
from outlast.handoffs.task_state import meant
from outlast.operations.table import OPERATIONS
from outlast.python.handoffs import Handoffs, _claim, _limit, _number, _refuse_both, _reports, _standing, _words
from outlast.remote.calls import (
    Given,
    answer_of,
    embedded_only,
    from_operations,
    handoff_of,
    like,
    pages,
    recovered_of,
    value_of,
)
from outlast.remote.observe import ObservedCall, ObserveQuery, When
from outlast.values.codec import text

if TYPE_CHECKING:
    from outlast.remote.line import Line
    from outlast.runs.live import Executor

_SETTLING = ("outcome", "actor", "evidence", "acknowledged", "missing", "override", "note", "operation_id")
LIST = OPERATIONS["handoff_list"]
HERE_ONLY = "do it where the home is: `outlast handoff export`, `outlast handoff import`"


@from_operations("handoff", Handoffs)
class RemoteHandoffs(Handoffs):
    """Store, recover, claim and settle handoffs of a server. What is not here works as it does embedded."""

    _executor: Executor

    def __init__(self, line: Line, executor: Executor) -> None:
        super().__init__(executor)
        self._line = line

    @like(Handoffs.store)
    def store(self, given: Given) -> Handoff:
        scope = self._caller.scope_named(given["scope"], given.pop("tenant_id"))
        contract = contract_of(**{name: given.pop(name) for name in CONTRACT_FIELDS})
        given["claim_id"] = _claim(given["claim_id"])
        _number("expected_revision", given["expected_revision"])
        wanted = ObserveQuery(HandoffQuery(scope, contract.anchor))
        looking, body = self._looking("store", given, wanted), given | contract_json(contract)
        stored = handoff_of(looking.storing(OPERATIONS["handoff_store"], body, contract, bind=given.pop("bind")).raw)
        wanted.refuse_other(stored)
        return stored

    @like(Handoffs.recover)
    def recover(self, given: Given) -> Recovered:
        names = ("anchor", "handoff_id", "file_path", "repo_root", "symbol", "tenant_id", "scope", "revision", "branch")
        asked = self._asked(**{name: given[name] for name in names})
        if given["anchor"] is None and given["handoff_id"] is None:
            given["anchor"] = self._near(given)
            given["file_path"] = given["symbol"] = given["branch"] = None
            asked = asked._replace(anchor=given["anchor"], file_path=None, symbol=None, branch=None)
        given |= {"accept": _words("accept", given["accept"]), "claim_id": _claim(given["claim_id"])}
        self._check(given, claim=given["claim"])
        agree = agreed(given, runs=bool(given["run_checks"]))
        wanted = ObserveQuery(asked, checks=bool(given["run_checks"]), agree=agree)
        return self._recovered("handoff_recover", given, "recover", wanted)

    @like(Handoffs.verify)
    def verify(self, given: Given) -> Recovered:
        self._caller.scope_named(given["scope"], given["tenant_id"])
        wanted = self._wanted(given, checks=True, agree=agreed(given, runs=True))
        return self._recovered("handoff_verify", given, "verify", wanted)

    def _recovered(self, name: str, given: Given, when: When, wanted: ObserveQuery) -> Recovered:
        looking = self._looking(when, given, wanted)
        got = looking.seen(recovered_of(looking.about_handoffs(OPERATIONS[name], given).raw))
        if got.claim is not None:
            self._line.take(got.claim.id)
        return got

    def _wanted(self, given: Given, *, checks: bool = False, agree: str | None = None) -> ObserveQuery:
        asked = self._asked(given["anchor"], repo_root=given["repo_root"], scope=given["scope"])
        return ObserveQuery(asked, checks, agree)

    def _check(self, given: Given, *, claim: bool) -> None:
        """Raises what embedded is raised before anything is looked for."""
        said = {name: given[name] for name in ("take", "accept", "why", "operation_id")}
        check(self._executor.home, Recovering(actor=self._caller.actor_named(given["actor"]), claim=claim, **said))

    @like(Handoffs.claim)
    def claim(self, given: Given) -> HandoffClaim:
        given["accept"] = _words("accept", given["accept"])
        self._check(given, claim=True)
        looking = self._looking("recover", given, self._wanted(given))
        claim = value_of(looking.about_handoffs(OPERATIONS["handoff_claim"], given).raw, HandoffClaim)
        _refuse_other(claim.anchor, given["anchor"])
        self._line.take(claim.id)
        return claim

    @like(Handoffs.settle)
    def settle(self, given: Given) -> Settlement:
        given |= {name: _words(name, given[name]) for name in ("acknowledged", "missing")}
        given |= {"evidence": _reports(given["evidence"]), "claim_id": _claim(given["claim_id"])}
        settling.check(self._executor.home, settling.Settling(**{name: given[name] for name in _SETTLING}))
        runs = bool(given["run_checks"]) and given["outcome"] == "completed"
        wanted = self._wanted(given, checks=runs, agree=agreed(given, runs=runs))
        looking = self._looking("settle", given, wanted)
        settled = value_of(looking.settling(OPERATIONS["handoff_settle"], given), Settlement)
        _refuse_other(settled.anchor, given["anchor"])
        return settled

    def _looking(self, when: When, given: Given, wanted: ObserveQuery) -> ObservedCall:
        return ObservedCall(self._line, self._executor, when, self._caller.actor_named(given.get("actor")), wanted)

    # -- looking ---------------------------------------------------------------------------------

    @like(Handoffs.get)
    def get(self, given: Given) -> Handoff:
        handoff_id, anchor, scope = given["handoff_id"], given["anchor"], given["scope"]
        _refuse_both(handoff_id, anchor)
        wanted = ObserveQuery(self._asked(anchor, handoff_id, scope=scope, revision=given["revision"]))
        if handoff_id == "":
            raise HandoffNotFound("id ''")
        if anchor is None:
            named, name = {"handoff_id": handoff_id, "scope": scope}, "handoff_get"
        else:
            named, name = {"anchor": anchor, "revision": given["revision"], "scope": scope}, "handoff_get_by_anchor"
        found: Handoff = answer_of(self._line, OPERATIONS[name], named)
        wanted.refuse_other(found)
        return found

    _get = get  # the server notes who looked

    lint = Handoffs.lint  # it needs nothing of the server
    export = embedded_only(Handoffs.export, HERE_ONLY)
    import_ = embedded_only(Handoffs.import_, HERE_ONLY)

    @like(Handoffs.list)
    def list(self, given: Given) -> Any:
        standing, look, limit = _standing(given["standing"]), given["look"], _limit(given["limit"])
        if limit < 1:
            raise HandoffInvalid(
                "limit", "it is no whole number above 0", "say how many are wanted at most, such as 50"
            )
        if not look and standing != "contested":
            return answer_of(self._line, LIST, given)
        found = []
        for one in self._judged(given["scope"], given["before"]):
            if standing in (None, one.standing):
                found.append(one)
            if len(found) >= limit:
                break
        return found

    def _contested(self, judged: int) -> Any:
        newest = islice(self._judged(None, None), 2 * judged)
        return [one for one in newest if one.standing == "contested"]

    def _judged(self, scope: str | None, before: str | None) -> Iterator[Listed]:
        """Every handoff, judged by what its files are here."""
        for each in pages(self._line, LIST, {"look": True, "scope": scope, "before": before}):
            one = value_of(each, Listed)
            broken = one.verdict is not None and any(why.code == "integrity_broken" for why in one.verdict.reasons)
            if one.standing == "finished" or broken:
                yield one
                continue
            got = self.recover(handoff_id=one.handoff_id, scope=one.scope, include_finished=True, listing=True)
            yield replace(one, verdict=got.verdict, standing=self._standing(one, got))

    def _standing(self, one: Listed, got: Recovered) -> Any:
        if one.standing in ("finished", "claimed"):
            return one.standing
        if got.verdict.unaccepted(got.accepted):
            return "contested"
        return "expired" if micros(one.expires_at) <= self._executor.home.clock.now() else "open"

    # -- by file, by branch ----------------------------------------------------------------------

    def _near(self, given: Given) -> str:
        """The anchor that is meant by a file, or by the branch that is checked out here.

        Raises HandoffNotFound, HandoffAmbiguous, HandoffInvalid.
        """
        root = observer_of(self._caller).root(self._caller, given["repo_root"])
        if given["file_path"] is not None:
            return self._of_file(given, root, relative_to(root, given["file_path"], "file_path"))
        if given["symbol"] is not None:
            remedy = "give file_path too (--file)"
            raise HandoffInvalid("symbol", "it says where in a file, and no file is named", remedy)
        branch = branch_of(root) if given["branch"] is None else given["branch"]
        query = {"branch": branch or None, "scope": given["scope"]}
        near = self._here(root, query)
        found = meant(near if given["branch"] is None else (each for each in near if not each.run))  # of no branch
        if found is None:
            where = f"branch {branch!r}" if branch else f"{root} (no branch is checked out there)"
            raise HandoffNotFound(where, ", ".join(self._open_ones(given["scope"])))
        return found.anchor

    def _of_file(self, given: Given, root: Any, path: str) -> str:
        query = {"file_path": path, "symbol": given["symbol"], "scope": given["scope"]}
        here = list(dict.fromkeys(each.anchor for each in self._here(root, query)))
        words = self._asked(file_path=given["file_path"], symbol=given["symbol"]).words
        if not here:
            raise HandoffNotFound(words)
        if len(here) > 1:
            raise HandoffAmbiguous(words, ", ".join(here))
        return here[0]

    def _here(self, root: Any, query: Given) -> Iterator[Near]:
        """Those whose files are here: stored or run in this folder, or in another clone of its repository."""
        stand = Stand(root)
        for each in pages(self._line, OPERATIONS["handoff_near"], query):
            near = value_of(each, Near)
            bound = Binding(root=near.root, host="", commit=near.commit, prefix=near.prefix, known_by=near.known_by)
            if near.root in ("", text(str(root))) or stand.place_of(bound):
                yield near

    def _open_ones(self, scope: str | None) -> Iterator[str]:
        found = (value_of(each, Listed) for each in pages(self._line, LIST, {"scope": scope}))
        return islice((one.anchor for one in found if one.standing != "finished"), 10)


def agreed(given: Given, *, runs: bool) -> str | None:
    """The digest that the caller agrees to, taken out of what is sent: it is no matter of the server's.

    Raises HandoffInvalid.
    """
    agree: str | None = given.pop("agree")
    check_agree(agree, runs=runs)
    return agree


def _refuse_other(found: str, anchor: str) -> None:
    """Raises ReplyRefused for an answer about another anchor."""
    if found != anchor:
        raise ReplyRefused(f"it is about {found!r:.300}, and {anchor!r:.300} was asked for", "see whose server it is")


def contract_json(contract: Contract) -> Given:
    """The fields of a contract that have a value."""
    said = {name: getattr(contract, name) for name in CONTRACT_FIELDS}
    return {name: value for name, value in said.items() if value is not None and value != ()}
