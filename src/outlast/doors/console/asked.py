"""What a page asks for: operations by name, in the name of who looks."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlencode

import msgspec

from outlast.doors.http import calls
from outlast.doors.http.handlers import HANDLERS, resume_here
from outlast.errors import OutlastError, RequestInvalid
from outlast.operations.table import OPERATIONS

if TYPE_CHECKING:
    from outlast import RunRecord
    from outlast.doors.console.access import Visit
    from outlast.doors.http.calls import CallRequest
    from outlast.operations.operation import Role
    from outlast.python.handoffs import Handoffs, Inbox
    from outlast.python.outlast import Outlast
    from outlast.python.shared import DoneEffect, ForkView, Plan, RunsSoFar

T = TypeVar("T")
MOST_FIELDS = 500  # of a form
LOOKED_AT = 1000  # runs that a page compares with what is asked for: then it says so, and leads on
KEPT = 16  # things that were made for pages lately


class Kept:
    """What was made for pages lately."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                found: T = self._found[key]
                return found
        made = make()
        with self._lock:
            self._found[key] = made
            while len(self._found) > KEPT:
                self._found.popitem(last=False)
        return made


_kept = Kept()


class PageRequest:
    """A page that is asked for, or a form that was sent: runs in a thread of the server."""

    def __init__(
        self, visit: Visit, form: Mapping[str, str] | None = None, many: Mapping[str, list[str]] | None = None
    ):
        self.visit, self.exchange = visit, visit.exchange
        self.path = self.exchange.path
        self.query = {name: value for name, value in fields(self.exchange.scope["query_string"]) if value}
        self.form, self.many = form or {}, many or {}

    def may(self, role: Role) -> bool:
        """Whether who looks has a role."""
        assert self.exchange.identity is not None
        return self.exchange.identity.may(role)

    def kept(self, what: tuple[Any, ...], make: Callable[[], T]) -> T:
        """What is made once for who looks, and is the same whenever he asks for it by these words."""
        identity = self.exchange.identity
        assert identity is not None
        whose = (identity.tenant, identity.actor, identity.key.id if identity.key else "")
        return _kept.of((self.exchange.state, *whose, *what), make)

    @property
    def scope(self) -> str | None:
        """The scope that is looked at; None: all, or the visitor's own."""
        return self.query.get("scope")

    def __call__(self, name: str, /, **given: Any) -> Any:
        """What an operation gives. Raises what it raises, Forbidden, RequestInvalid."""
        outlast, asked = self._opened(name, given)
        return calls.done(HANDLERS.get(name, calls.by_name), outlast, asked)

    def maybe(self, name: str, /, **given: Any) -> Any:
        """The same; None where it is refused, or there is none."""
        try:
            return self(name, **given)
        except OutlastError:
            return None

    def inbox(self, **given: Any) -> Inbox:
        """The open waits; the handoffs that something contests are looked for when somebody reads them."""
        outlast, asked = self._opened("interrupt_inbox", given)
        return outlast.inbox(scope=asked.request.scope)

    def some_runs(self, limit: int, most: int, cursor: str | None, **given: Any) -> RunsSoFar:
        """The next runs that are so, among so many that are looked at."""
        outlast, _ = self._opened("run_list", given)
        return outlast._some_runs(limit, most, cursor, **given)

    def newest_runs(self, limit: int, **given: Any) -> list[RunRecord]:
        """The newest runs that are so; they are looked for among so many that a page is there at once."""
        return self.some_runs(limit, LOOKED_AT, None, **given).runs

    def handoffs(self, **given: Any) -> Handoffs:
        """What was handed over, for the lists that a page has of it."""
        outlast, _ = self._opened("handoff_list", given)
        return outlast.handoff

    def outlast(self, name: str) -> Outlast:
        """The home, for what one who may do this operation does beside it."""
        return self._opened(name, {})[0]

    def left(self, run_id: str) -> list[Any]:
        """What unfinished attempts of a run left in their files, with how each was before and is now."""
        outlast, _ = self._opened("run_get", {"run_id": run_id, "state": False})
        return outlast._left(run_id)

    def attempts(self, run_id: str) -> Any:
        """The attempts of a run, each a receipt once it is asked for."""
        outlast, _ = self._opened("run_receipts", {"run_id": run_id})
        return outlast._attempts(run_id)

    def plan_with(self, run_id: str, decision: str, step: str) -> Plan:
        """What a resume would do once it was decided to retry or to skip a step."""
        outlast, _ = self._opened("run_plan", {"run_id": run_id})
        return outlast._plan_with(run_id, decision, step)

    def fork_view(self, run_id: str, step: str, *, reuse_effects: bool) -> ForkView:
        """What a fork from a step would take over and do anew."""
        outlast, _ = self._opened("run_plan", {"run_id": run_id})
        return outlast._fork_view(run_id, step, reuse_effects=reuse_effects)

    def effects_done(self, run_id: str) -> list[DoneEffect]:
        """The effects that a run and its children have done, or may have."""
        outlast, _ = self._opened("run_receipts", {"run_id": run_id})
        return outlast._effects_done(run_id)

    def resume(self, run_id: str, **given: Any) -> str:
        """Let a run go on, in the server's background; why it does not, if it does not."""
        outlast, asked = self._opened("run_resume", {"run_id": run_id, **given})
        try:
            resume_here(self.exchange, outlast, asked)
        except OutlastError as error:
            return f"{error.detail} {error.what_next}".strip()
        return ""

    def _opened(self, name: str, given: dict[str, Any]) -> tuple[Outlast, CallRequest]:
        call = OPERATIONS[name]
        try:
            request = msgspec.convert(given, call.request, strict=False)
        except msgspec.ValidationError as error:
            raise RequestInvalid(name, str(error)) from error
        outlast, asked = self.exchange.opened_for(call, request)
        return (outlast._acting() if self.exchange.state.settings.looks_here else outlast), asked

    def link(self, **change: Any) -> str:
        """This page with other words in its query; None takes one out."""
        query = {name: value for name, value in (self.query | change).items() if value not in (None, "")}
        return str(self.exchange.scope["path"]) + (f"?{urlencode(query)}" if query else "")


def word(value: str) -> str:
    """A word as a shell takes it."""
    plain = value.translate({ord(sign): None for sign in "/-_:.@~"})
    return value if plain.isalnum() and plain.isascii() else "'" + value.replace("'", "'\\''") + "'"


def fields(raw: bytes) -> list[tuple[str, str]]:
    """The fields of a query or a form. Raises RequestInvalid."""
    try:
        return parse_qsl(raw.decode(), keep_blank_values=True, strict_parsing=False, max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise RequestInvalid("form", str(error)) from error
