"""Digests. One hash everywhere: SHA-256, in hex; identities use its first 128 bits."""

from __future__ import annotations

from hashlib import sha256


def digest(data: bytes) -> str:
    """The whole SHA-256, for content that must be proven."""
    return sha256(data).hexdigest()


def identity(data: bytes) -> str:
    """The first half, for telling inputs and code apart."""
    return sha256(data).hexdigest()[:32]
