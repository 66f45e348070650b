"""Runs of a server: started and resumed by name, waited for. What the client does does not stop them.

And its schedules, which start runs: the server knows the flow by its name.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from outlast.errors import RunFinished, RunHeld
from outlast.python.outlast import acceptance_of, taken_because
from outlast.python.schedules import Schedules
from outlast.remote.calls import Given, from_operations, outcome_of
from outlast.remote.line import in_path
from outlast.runs.receipt import Attempts, Receipt
from outlast.runs.run import Options, Outcome
from outlast.runs.start import pack_inputs
from outlast.values.ambient import STOP, refuse_stopped
from outlast.values.codec import Decode, decode

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.python.decorators import Flow, FlowFile
    from outlast.remote.line import Line

FIRST_LOOK = 1.0  # seconds: a run that is shorter is told whole at once
OF_THE_CLIENT = ("wait", "returns")  # options that no server is told
WHEN_AWAITED = 1.0  # one who is awaited may be cancelled, and looks up more often


class GivenReceipts(Attempts):
    """Receipts that a server gave: each is its own attempt."""

    def __init__(self, receipts: list[Receipt]) -> None:
        self.heard: Sequence[Any] = receipts
        self.once_each = False

    def receipt(self, heard: Any) -> Receipt:
        found: Receipt = heard
        return found

    def broken(self) -> Iterator[Receipt]:
        return (each for each in self if each.broken)


class Runs:
    """The runs of a server, as a client starts and waits for them."""

    def __init__(self, line: Line, home: Home) -> None:
        self._line, self._home = line, home

    def begin(
        self,
        flow: Flow[..., Any] | FlowFile,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: Options,
        *,
        look: float = FIRST_LOOK,
    ) -> Outcome[Any]:
        """How a run stands that was started, or goes on, just now. Raises RunHeld, unless the caller would wait."""
        spec, unheard = flow.spec, list[int]()
        inputs = decode(pack_inputs(spec, spec.bind(args, kwargs)))
        body = {"flow": spec.name, "inputs": inputs, "operation_id": self._line.operation_id(), **_said(options)}
        with _goes_on(""):
            query = {"wait": look}
            reply = self._line.ask("POST", "/v1/runs", query=query, body=body, wait=look, failed=unheard.append)
        found = outcome_of(reply.raw, spec.decode)
        if not unheard:  # else it may be our own: our first word was heard, and its answer was not
            _refuse_held(found, options)
        for note in found.notes if not found.replayed else ():
            self._home.warn(note)
        return found

    def resume(
        self,
        run_id: str,
        accept: Iterable[str],
        why: str,
        partial: str | None,
        flow: Flow[..., Any] | FlowFile | str | None,
        take: bool = False,
    ) -> Outcome[Any]:
        """How a run stands that goes on since now."""
        taken = acceptance_of(accept, why, partial)
        taken_because(take, why)
        body = {"accept": taken.codes, "why": why, "partial": partial, "take": take}
        if flow is not None:
            body["flow"] = flow if isinstance(flow, str) else flow.spec.name
        unheard: list[int] = []
        path = f"/v1/runs/{in_path(run_id)}/resume"
        try:
            with _goes_on(run_id):
                query = {"wait": FIRST_LOOK}
                reply = self._line.ask("POST", path, query=query, body=body, wait=FIRST_LOOK, failed=unheard.append)
        except (RunHeld, RunFinished):
            if not unheard:
                raise
            return self.look(run_id, 0.0)  # our first word was heard, and its answer was not
        return outcome_of(reply.raw)

    def look(self, run_id: str, wait: float, back: Decode | None = None) -> Outcome[Any]:
        """How a run stands; with `wait`, once it has ended or waits, or that time is over."""
        path = f"/v1/runs/{in_path(run_id)}/outcome"
        return outcome_of(self._line.ask("GET", path, query={"wait": wait}, wait=wait).raw, back)

    def until_over(self, found: Outcome[Any], back: Decode | None = None) -> Outcome[Any]:
        """How it stands once nobody runs it any more. Who stops waiting stops nothing."""
        notes = found.notes
        with _goes_on(found.run_id):
            while found.status in ("queued", "running"):
                refuse_stopped()
                seconds = self._line.patience.poll_seconds
                found = self.look(found.run_id, min(seconds, WHEN_AWAITED) if STOP.get() else seconds, back)
        return replace(found, notes=(*notes, *(note for note in found.notes if note not in notes)))

    def finish(self, begun: Outcome[Any], back: Decode, options: Options) -> Outcome[Any]:
        """How it stands once nobody runs it. Of a run that somebody else runs the caller waits as long as he would."""
        if not begun.holder or options.wait is False:
            return self.until_over(begun, back)
        try:
            return self.wait(begun.run_id, None if options.wait is True else float(options.wait), back)
        except TimeoutError:
            raise RunHeld(begun.run_id, begun.holder, 0) from None

    def wait(self, run_id: str, timeout: float | None, back: Decode | None = None) -> Outcome[Any]:
        """How a run stands once nobody runs it; if its holder dies, it goes on at the server. Raises TimeoutError."""
        until = time.monotonic() + (float("inf") if timeout is None else timeout)
        with _goes_on(run_id):
            found = self.look(run_id, 0.0, back)
            while found.status in ("queued", "running", "crashed"):
                refuse_stopped()
                if found.status == "crashed":
                    self._take_up(run_id)
                if (left := until - time.monotonic()) <= 0:
                    raise TimeoutError(f"run {run_id} has not ended within {timeout} s")
                found = self.look(run_id, min(left, WHEN_AWAITED), back)
        return found

    def _take_up(self, run_id: str) -> None:
        with suppress(RunHeld, RunFinished):  # somebody was quicker
            self.resume(run_id, (), "", None, None)


def _said(options: Options) -> dict[str, Any]:
    """What is said of a run in a request: what was given, in the same names."""
    names = [name for name in options.__struct_fields__ if name not in OF_THE_CLIENT]
    return {name: value for name in names if (value := getattr(options, name)) not in (None, False, "", ())}


def _refuse_held(found: Outcome[Any], options: Options) -> None:
    """Raises RunHeld for a run that somebody else runs, if the caller would not wait for it."""
    if found.status == "running" and found.holder and options.wait is False:
        raise RunHeld(found.run_id, found.holder, 0)


@contextmanager
def _goes_on(run_id: str) -> Iterator[None]:
    """Whoever interrupts the waiting is told that the run goes on."""
    try:
        yield
    except KeyboardInterrupt as error:
        stop = f"outlast.pause({run_id!r})" if run_id else "outlast.pause(RUN)"
        error.add_note(f"the run {run_id or 'that was started'} goes on at the server; to stop it: {stop}")
        raise


# -- schedules ---------------------------------------------------------------------------------------


@from_operations("schedules", Schedules)
class RemoteSchedules(Schedules):
    """The schedules of a server; its workers fire them."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def _check_add(self, given: Given) -> None:
        given["flow"] = given["flow"].spec.name
