"""API keys: who may ask, of every tenant."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Protocol

import msgspec

from outlast.store.contract.runs import LAST
from outlast.values.frozen import NamedTuple

KEYS = "keys.db"  # its name in a home


class KeyRow(NamedTuple):
    """A key as it is stored. Times are microseconds; 0: never."""

    id: str
    print: str
    tenant: str
    actor: str
    roles: str
    scopes: str
    created_at: int
    expires_at: int
    last_used_at: int
    revoked_at: int
    proof: bytes = b""  # set when it is stored

    def proven(self) -> KeyRow:
        """The same with the proof of what it says."""
        return self._replace(proof=self._proof())

    def is_sound(self) -> bool:
        """Whether it says what was stored. When it was used last only has to be a time."""
        return self.proof == self._proof() and 0 <= self.last_used_at <= LAST

    def _proof(self) -> bytes:
        said = (*self[:8], self.revoked_at)  # when it was used last moves by itself
        return sha256(msgspec.msgpack.encode(("keys", *said))).digest()[:16]


class KeyStore(Protocol):
    """The keys of a home. None is ever removed."""

    def add(self, row: KeyRow) -> None: ...
    def find(self, key_id: str) -> KeyRow | None: ...
    def all(self) -> list[KeyRow]: ...
    def is_any(self) -> bool: ...
    def revoke(self, row: KeyRow, at: int) -> None: ...
    def use(self, key_id: str, at: int) -> None: ...

    def lost(self) -> str:
        """What is wrong, when there were keys and they are gone; else nothing."""
        ...

    def copy_to(self, place: Path) -> bool:
        """Write the keys as they are now into a new file; whether there are any to write."""
        ...

    def close(self) -> None: ...
