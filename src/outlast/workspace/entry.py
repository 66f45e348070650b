"""What every entry of the workspace shares: who made it, what can be said of it, and the proof of its row.

What is given is checked here before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from outlast.errors import RunRemoved, ValueRefused
from outlast.home.home import run_row
from outlast.store.contract import Reading, below, every_row
from outlast.store.contract.workspace import ArtifactRow, RecordRow
from outlast.values.codec import encode
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.secrets import find as secrets
else:
    secrets = late("outlast.secrets.find")

SUMMARY_LENGTH = 10_000
TAGS, TAG_LENGTH = 100, 200
PAGE = 200

Row = TypeVar("Row", ArtifactRow, RecordRow)


class ArtifactSource(Struct, frozen=True):
    """Who saved an artifact, and where: outside of any run, in the body of one, or in a step."""

    actor: str
    run_id: str = ""
    step: str = ""
    attempt: int = 0
    origin: str = ""  # where the content came from, in the saver's words


def check_text(path: str, text: Any, limit: int) -> str:
    """A text that can be stored as it is."""
    if not isinstance(text, str):
        raise ValueRefused(path, f"{type(text).__qualname__} is no text", "give text")
    if len(text) > limit:
        why = f"it has {len(text):,} characters; the limit is {limit:,}"
        raise ValueRefused(path, why, "make it shorter, or save the long form as an artifact")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueRefused(
            path, f"it cannot be stored as UTF-8: {error.reason}", "give text without surrogates"
        ) from error
    return text


def check_tags(tags: Any) -> tuple[str, ...]:
    """Tags: short printable texts, each once, in order."""
    if isinstance(tags, str) or not hasattr(tags, "__iter__"):
        raise ValueRefused("tags", f"{type(tags).__qualname__} is no list of texts", 'give a list: tags=["draft"]')
    found = tuple(tags)
    for place, tag in enumerate(found):
        if not isinstance(tag, str) or not tag.strip() or len(tag) > TAG_LENGTH or not tag.isprintable():
            remedy = f"give printable text of 1 to {TAG_LENGTH} characters"
            raise ValueRefused(f"tags[{place}]", f"{tag!r:.100} is no tag", remedy)
    if len(found) > TAGS:
        raise ValueRefused("tags", f"they are {len(found)}; the limit is {TAGS}", "give fewer")
    return tuple(sorted(set(found)))


def check_refs(refs: Any, limit: int) -> tuple[str, ...]:
    """Refs as they were given, each once. Raises ValueRefused for what is none."""
    if isinstance(refs, str) or not hasattr(refs, "__iter__"):
        raise ValueRefused("refs", f"{type(refs).__qualname__} is no list of refs", "give a list: refs=[draft.ref]")
    given = list(refs)
    for place, ref in enumerate(given):
        if not isinstance(ref, str):
            raise ValueRefused(f"refs[{place}]", f"{type(ref).__qualname__} is no ref", "give its .ref")
    found = tuple(dict.fromkeys(given))
    if len(found) > limit:
        raise ValueRefused(
            "refs", f"they are {len(found):,}; the limit is {limit:,}", "save a list of them as an artifact"
        )
    return found


def without_secrets(home: Home, said: dict[str, Any], redact: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What is said with its secrets masked, and where they were. Raises SecretFound by path unless asked to mask."""
    if not redact:
        secrets.check(said, "", home.secrets.rules)
        return said, ()
    plain, masked = secrets.masked(said, "", home.secrets.rules)
    return plain, tuple(masked)


def run_id_of(home: Home, run: str) -> str:
    """A run's id by a prefix of it; a removed run is known by its whole id: what it made stays."""
    try:
        return run_row(home, run).id
    except RunRemoved:
        return run


def newest_first(home: Home, page: Callable[[Reading, int, int], list[Row]], before: int = 0) -> Iterator[Row]:
    """Every row of a list, read as it is used: `page` gives so many of those before a key."""
    read = home.store.read
    return every_row(lambda last: read(lambda look: page(look, last, PAGE)), lambda row: below(row.key), before)


def proof_of(*facts: Any) -> bytes:
    """What proves a row: a hash of everything that it says."""
    return sha256(b"outlast workspace\n" + encode(list(facts))).digest()
