"""What an effect's probe may answer, and calling the probe."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from outlast.flows.spec import Signature
from outlast.values.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Happened:
    """The probe found it: the effect has happened, and this is its result."""

    value: Any = None


class ProbeAnswer:
    """A probe's answer that carries nothing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


NOT_DONE: Final = ProbeAnswer("NOT_DONE")
UNKNOWN: Final = ProbeAnswer("UNKNOWN")
Confirmed = Happened | ProbeAnswer


def probe_arguments(
    confirm: Callable[..., Any], inputs: Mapping[str, Any], key: str, resource: Callable[[str], Any]
) -> dict[str, Any]:
    """What to call a probe with: those of the effect's inputs that it names, the key, its own resources."""
    signature = Signature(confirm)
    offered = {**inputs, "key": key, **dict.fromkeys(signature.keyed, key)}
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters):
        given = dict(offered)
    else:
        names = [p.name for p in signature.parameters if p.name not in signature.injected]
        given = {name: offered[name] for name in names if name in offered}
    return given | {name: resource(key_) for name, key_ in signature.injected.items()}


def understood(answer: Any) -> Confirmed:
    """A probe's answer, checked. Raises TypeError for anything that is no answer."""
    if isinstance(answer, Happened) or answer is NOT_DONE or answer is UNKNOWN:
        return answer
    raise TypeError(f"a confirm probe returns Happened(value), NOT_DONE or UNKNOWN, not {answer!r}")
