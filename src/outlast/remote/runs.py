"""Runs of a server: started and resumed by name, waited for. What the client does does not stop them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from outlast.errors import RunFinished, RunHeld
from outlast.remote.line import in_path
from outlast.remote.values import outcome_of
from outlast.runs.options import Options
from outlast.runs.run import Outcome
from outlast.values.cancel import STOP, refuse_stopped
from outlast.values.codec import Decode, decode

if TYPE_CHECKING:
    from outlast.python.decorators import Flow, FlowFile
    from outlast.remote.line import Line
    from outlast.remote.place import Ashore

FIRST_LOOK = 1.0  # seconds: a run that is shorter is told whole at once
_SAID = ("task", "fresh", "session", "trace_id", "meta", "again", "yes", "effects")  # of a start
WHEN_AWAITED = 1.0  # one who is awaited may be cancelled, and looks up more often


class Runs:
    """The runs of a server, as a client starts and waits for them."""

    def __init__(self, line: Line, runtime: Ashore) -> None:
        self._line, self._runtime = line, runtime

    def begin(
        self,
        flow: Flow[..., Any] | FlowFile,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: Options,
        *,
        look: float = FIRST_LOOK,
    ) -> Outcome[Any]:
        """How a run stands that was started, or goes on, just now."""
        spec = flow.spec
        inputs = decode(self._runtime.pack_inputs(spec, spec.bind(args, kwargs)))
        said = {name: value for name in _SAID if (value := getattr(options, name)) is not None}
        operation_id = options.operation_id or self._line.operation_id()
        body = {"flow": spec.name, "inputs": inputs, **said, "operation_id": operation_id}
        with _goes_on(""):
            reply = self._line.ask("POST", "/v1/runs", query={"wait": look}, body=body, wait=look)
        return outcome_of(reply.raw, spec.decode)

    def resume(self, run_id: str, accept: Iterable[str], why: str, partial: str | None) -> Outcome[Any]:
        """How a run stands that goes on since now."""
        from outlast.python.outlast import acceptance_of

        taken = acceptance_of(accept, why, partial)
        body = {"accept": taken.codes, "why": why, "partial": partial}
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
        with _goes_on(found.run_id):
            while found.status == "running":
                refuse_stopped()
                seconds = self._line.patience.poll_seconds
                found = self.look(found.run_id, min(seconds, WHEN_AWAITED) if STOP.get() else seconds, back)
        return found


@contextmanager
def _goes_on(run_id: str) -> Iterator[None]:
    """Whoever interrupts the waiting is told that the run goes on."""
    try:
        yield
    except KeyboardInterrupt as error:
        stop = f"outlast.pause({run_id!r})" if run_id else "outlast.pause(RUN)"
        error.add_note(f"the run {run_id or 'that was started'} goes on at the server; to stop it: {stop}")
        raise
