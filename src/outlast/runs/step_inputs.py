"""What a call was given, as its receipts keep it: enough to answer "what did that call get?", and never a secret.

An input that equals the result of an earlier call is kept as that call's id (a text), whatever its size. Another one is
kept itself (numbers bare, all else as a list of one), masked, up to `INLINE_BYTES`; what is larger by its digest, or
whole as a blob where the step says so (an object).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from outlast import errors
from outlast.ledger.journal import CALLS, Payload, decode_payload
from outlast.runs.call import Call, Ledger, id_of
from outlast.values.codec import decode, digest, encode, sha256
from outlast.values.late import late

if TYPE_CHECKING:
    import hashlib

    from outlast.home.home import Home
    from outlast.runs.attempt import StepCall
    from outlast.secrets import find
else:
    find = late("outlast.secrets.find")  # it is dear, and calls without text never need it

INLINE_BYTES = 2 * 1024
REF_LENGTH = 12  # of a call's id, enough within a run: a page of the store has room for three entries of a kilobyte
LabelOf = Callable[[str], tuple[str, str]]  # of a ref: the whole id of the call, and what people call it
SHORT_BYTES = 48  # what is not longer is kept itself: to name an earlier call takes as much
_BARE = frozenset({int, float, bool, type(None)})
_all_bare = _BARE.issuperset
Known = dict[str | bytes, tuple[str, str, str, int]]  # calls as plain tuples: no search for garbage goes through those


class StepInputs:
    """What the calls of one execution were given. Results are known by their digests, to be told again.

    Those in the journal by one that their receipts are proven with too (`begun_with`), those in blobs by the name of
    these.
    """

    def __init__(self, home: Home, ledger: Callable[[], Ledger]) -> None:
        self._home, self._ledger = home, ledger
        self._results: Known = {}  # the call that gave a result
        self._has_blobs = False  # a result is one
        self._before: Known | None = None  # the same of what was done before this execution

    def note_result(self, call: Call, raw: bytes, blob: str) -> None:
        """A call gave this."""
        if blob:
            self._results[blob], self._has_blobs = (*call,), True
        elif len(raw) > SHORT_BYTES:
            self.note_known(call, _key(raw))

    def note_known(self, call: Call, key: bytes) -> None:
        """A call gave what is known by this."""
        self._results[key] = (*call,)

    def let_go(self) -> None:
        """Nobody asks any more: of who does, nothing is kept here."""
        self._ledger = Ledger

    def of(self, asked: StepCall) -> dict[str, Any]:
        """What its receipts keep of a call's inputs, by name; nothing where the step says so."""
        whole = asked.spec.record_inputs
        if whole is False or (asked.spec.work is not None and asked.spec.command):
            return {}
        if _all_bare(map(type, asked.inputs.values())):
            return asked.inputs
        kept: dict[str, Any] = {}
        inline: dict[str, tuple[Any, int]] = {}  # what is kept itself, and how long it is
        for name, value in asked.inputs.items():
            if type(value) in _BARE:
                kept[name] = value
                continue
            kept[name] = known = self._known(raw := encode(value), whole is True)
            if known is None:
                inline[name] = value if type(value) is str else decode(raw), len(raw)
        return kept | self._inline(inline) if inline else kept

    def _known(self, raw: bytes, whole: bool) -> Any:
        """The call that gave this, or the digest of what is too large; None for what is kept itself."""
        is_large = len(raw) > INLINE_BYTES and not whole
        if len(raw) <= SHORT_BYTES or not (is_large or self._results or self._earlier()):
            return None
        named = digest(raw) if is_large else ""
        of = self._result_of(_key(raw))
        if of is None and self._has_blobs:
            of = self._result_of(named or digest(raw))
        return id_of(Call(*of))[:REF_LENGTH] if of else {"digest": named, "bytes": len(raw)} if is_large else None

    def _inline(self, values: dict[str, tuple[Any, int]]) -> dict[str, Any]:
        """Values without their secrets, all looked at together; their names may tell that they are some."""
        clean, _ = find.counted({name: value for name, (value, _) in values.items()}, self._home.secrets.rules)
        return {name: self._whole(value, *values[name]) for name, value in clean.items()}

    def _whole(self, value: Any, before: Any, size: int) -> Any:
        if value is before and size <= INLINE_BYTES:
            return [value]
        raw = encode(value)
        return [value] if len(raw) <= INLINE_BYTES else {"blob": self._home.blobs.put(raw), "bytes": len(raw)}

    def _result_of(self, key: str | bytes) -> tuple[str, str, str, int] | None:
        return self._results.get(key) or self._earlier().get(key)

    def _earlier(self) -> Known:
        """What was done before, by the digest of its result: looked at when it is first asked for."""
        if self._before is None:
            self._before = dict(_results(self._ledger()))
            self._has_blobs = self._has_blobs or any(type(key) is str for key in self._before)
        return self._before


def begun_with(raw: bytes) -> hashlib._Hash:
    """The hash of a payload that begins with this result. As far as that it is what the result is known by."""
    return sha256(b'{"result":%b' % raw)


def _key(raw: bytes) -> bytes:
    return begun_with(raw).digest()


def _results(ledger: Ledger) -> Iterable[tuple[str | bytes, tuple[str, str, str, int]]]:
    for past in ledger.calls.values():
        payload = past.payload if past.kind in CALLS else None
        if payload:
            kept = decode_payload(payload)
            raw = b"" if kept.result is msgspec.UNSET else bytes(kept.result)
            if kept.blob or len(raw) > SHORT_BYTES:
                yield kept.blob or _key(raw), (*past.call,)


def blobs_of(kept: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The blobs that hold inputs."""
    return tuple(one["blob"] for one in (kept or {}).values() if isinstance(one, dict) and "blob" in one)


def shown_inputs(payload: Payload, label_of: LabelOf, blob: Callable[[str], bytes] | None) -> dict[str, Any]:
    """What a receipt says of the inputs, by name: its `value`, or whose `result_of` it is, or only its `digest`."""
    return {name: _shown(one, label_of, blob) for name, one in (payload.inputs or {}).items()}


def _shown(kept: Any, label_of: LabelOf, blob: Callable[[str], bytes] | None) -> dict[str, Any]:
    if isinstance(kept, list):
        return {"value": kept[0]}
    if isinstance(kept, str):
        call, label = label_of(kept)
        return {"result_of": label, "call": call}
    if not isinstance(kept, dict):
        return {"value": kept}
    if "blob" in kept and blob is not None:
        try:
            return {"value": decode(blob(kept["blob"]))}
        except errors.IntegrityBroken as error:
            return {**kept, "broken": str(error.why)}
    return dict(kept)
