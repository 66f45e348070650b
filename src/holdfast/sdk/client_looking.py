"""Looking for a server: what it asks to be looked at is looked at here, and sent with the same request again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from holdfast.domain.contracts import rule_of
from holdfast.domain.handoff import Contract, Evidence, Handoff, key_of
from holdfast.errors import HoldfastError, LookFirst
from holdfast.sdk.client_calls import Given, write

if TYPE_CHECKING:
    from holdfast.sdk.client_line import Line, Reply
    from holdfast.sdk.client_place import Ashore

LOOKS = 12  # while a handoff changes as fast as it is looked at, somebody else is at work
When = Literal["store", "recover", "verify", "settle"]


class Looking:
    """One call about files: sent until the server knows what it needs to know."""

    def __init__(
        self, line: Line, runtime: Ashore, when: When, by: str, repo_root: str | None, claims: str | None = None
    ) -> None:
        self._line, self._runtime = line, runtime
        self._shown = {} if claims is None else {"holdfast-claims": claims}  # only these, and not all of the client's
        self._when, self._by, self._repo_root = when, by, repo_root
        self.ran: list[Evidence] = []

    def about_handoffs(self, path: str, given: Given) -> Reply:
        """Send it with what is found of each handoff that the server asks about."""
        found: dict[str, Given] = {}
        body = self._named(given) | {"looks": True}
        for _ in range(LOOKS):
            try:
                return write(self._line, path, body | {"observed": list(found.values())}, headers=self._shown)
            except LookFirst as first:
                handoff = msgspec.convert(first.handoff, Handoff)
                found[handoff.id] = self._sighting(handoff, with_checks=first.what == "checks")
                asked = first
        raise asked

    def storing(self, path: str, given: Given, contract: Contract, *, bind: bool) -> Reply:
        """Send a handoff, bound to its files as they are here."""
        runs = given.get("baseline") is True
        body = self._named(given) | {"looks": bind or runs, "bind": bind}
        for _ in range(3):
            try:
                return write(self._line, path, body, headers=self._shown)
            except LookFirst as first:
                body |= self._bound(contract, first.what)
                asked = first
        raise asked

    def _named(self, given: Given) -> Given:
        """The same in every try: one write."""
        named = dict(given)
        if "operation_id" in named and named["operation_id"] is None:
            named["operation_id"] = self._line.operation_id()
        return named

    def _bound(self, contract: Contract, what: str) -> Given:
        root = self._runtime.eyes.root(self._runtime, contract.repo_root)
        if what == "checks":
            return {"ran": self._run(contract, root)}
        binding = self._runtime.eyes.bind(self._runtime, contract, root)
        assert binding is not None
        self._runtime.send_blobs(binding.blobs)
        return {"binding": binding}

    def _sighting(self, handoff: Handoff, *, with_checks: bool) -> Given:
        eyes, runtime = self._runtime.eyes, self._runtime
        root = eyes.place(runtime, handoff, self._repo_root)
        if root is None:
            return {"handoff_id": handoff.id}
        ran = self._run(handoff, root) if with_checks else None
        seen = eyes.observe(runtime, handoff, root)  # after the checks: they may write files
        musts = {
            key_of(form): eyes.broken(runtime, handoff, form, root)
            for _, form in handoff.musts
            if rule_of(form) is not None
        }
        said = {"handoff_id": handoff.id, "root": str(root), "binding": seen.binding, "relation": seen.relation}
        return said | {"musts": musts, "ran": ran}

    def _run(self, about: Contract, root: Path) -> list[Given]:
        between = self._renewal(about) if self._line.claims else None
        runtime, eyes = self._runtime, self._runtime.eyes
        self.ran = eyes.run_checks(runtime, about, root, when=self._when, by=self._by, between=between)
        runtime.send_blobs(each.output for each in self.ran if each.output)
        return [_told(each) for each in self.ran]

    def _renewal(self, about: Contract) -> Callable[[], None]:
        """What keeps a claim alive while checks take long."""
        named = {"anchor": about.anchor, "scope": about.scope if isinstance(about, Handoff) else None}

        def use() -> None:
            with suppress(HoldfastError):
                write(self._line, "/v1/handoff/renew", named, headers=self._shown)

        return use


def _told(ran: Evidence) -> dict[str, Any]:
    names = ("check", "passed", "exit", "seconds", "output", "note")
    return {name: getattr(ran, name) for name in names} | {"host": ran.where}
