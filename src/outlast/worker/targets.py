"""Who is told when something waits or fails: targets, kept in a file of the home that only its owner reads.

Their secrets are in no ledger and in no export. A target of the kind `command` runs a program of this machine, so that
targets are only ever added here, by who has the home.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from outlast.errors import NameInvalid
from outlast.home.place import check_name
from outlast.values.codec import decode, encode

Kind = Literal["webhook", "slack", "email", "command"]
KINDS: tuple[Kind, ...] = ("webhook", "slack", "email", "command")
ON = ("opened", "deadline", "doubt", "failed", "crashed", "finished", "contested")
USUAL = ("opened", "deadline", "doubt", "failed", "crashed", "contested")
FILE = "notify.json"
ANSWER_SECONDS = 7 * 86400


class Target(Struct, frozen=True):
    """One who is told."""

    name: str
    kind: Kind
    to: str  # a URL, an address, or a command
    tenant: str = "default"
    on: tuple[str, ...] = USUAL
    secret: str = ""  # signs webhooks and answer links
    server: str = ""  # of e-mail: host[:port]
    user: str = ""
    sender: str = ""
    private: bool = False  # whether its address may be one of this network
    answers: str = ""  # who may answer by a link in the message; nobody
    link: str = ""  # where the console is, as the addressee reaches it

    def shown(self) -> dict[str, Any]:
        """What lists show: all but the secret."""
        told = {name: value for name, value in msgspec.structs.asdict(self).items() if name != "secret"}
        return told | {"has_secret": bool(self.secret)}

    def recorded(self) -> dict[str, Any]:
        """What the record of a change says: of an address only where it is, because the rest may open it."""
        where = urlsplit(self.to).netloc.rpartition("@")[2] if self.kind in ("webhook", "slack") else ""
        told = {"kind": self.kind, "to": where or None, "on": list(self.on), "tenant": self.tenant}
        return told | {"answers": self.answers or None, "link": self.link or None, "private": self.private or None}


class Targets:
    """The targets of a home."""

    def __init__(self, home: Path) -> None:
        self.path = home / FILE

    def all(self) -> list[Target]:
        """Every target. Raises NameInvalid for a file that is none."""
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return []
        try:
            return msgspec.convert(decode(raw)["targets"], list[Target])
        except (ValueError, TypeError, LookupError, msgspec.ValidationError) as error:
            raise NameInvalid("notify", str(self.path), f"mend it or remove it: {error}") from error

    def add(self, target: Target) -> Target:
        """Keep a target; one of the same name is changed. Raises NameInvalid."""
        made = checked(target)
        self._write([*(each for each in self.all() if each.name != made.name), made])
        return made

    def remove(self, name: str) -> Target:
        """Forget one. Raises NameInvalid."""
        found = self.named(name)
        self._write([each for each in self.all() if each.name != name])
        return found

    def named(self, name: str) -> Target:
        """A target by its name. Raises NameInvalid."""
        found = self.known(name)
        if found is not None:
            return found
        raise NameInvalid("target", name, "there is none of that name; see `outlast notify list`")

    def known(self, name: str) -> Target | None:
        """The same, or None."""
        return next((each for each in self.all() if each.name == name), None)

    def _write(self, targets: list[Target]) -> None:
        write_private(self.path, encode({"targets": [msgspec.structs.asdict(each) for each in targets]}))


def write_private(path: Path, content: bytes) -> None:
    """A file that only its owner reads: whoever looks finds all of it, or what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def checked(target: Target) -> Target:
    """A target that can be told, with a secret. Raises NameInvalid."""
    check_name("target", target.name)
    if target.kind not in KINDS:
        raise NameInvalid("kind", target.kind, f"use one of {', '.join(KINDS)}")
    for word in target.on:
        if word not in ON:
            raise NameInvalid("on", word, f"use some of {', '.join(ON)}")
    if target.kind in ("webhook", "slack") and urlsplit(target.to).scheme not in ("http", "https"):
        raise NameInvalid("to", target.to, "give a URL that begins with https:// or http://")
    if target.kind == "email" and ("@" not in target.to or not target.server):
        raise NameInvalid("to", target.to, "give an address, and --server HOST[:PORT]")
    if target.answers and not target.link:
        raise NameInvalid("answers", target.answers, "a link to answer by needs --link URL, where the console is")
    secret = target.secret or secrets.token_urlsafe(32)
    return msgspec.structs.replace(target, secret=secret, link=target.link.rstrip("/"))


# -- links to answer by ----------------------------------------------------------------------------------


class AnswerPass(Struct, frozen=True):
    """Who may answer which wait, until when."""

    target: str
    interrupt: str
    actor: str
    until: int


def answer_token(target: Target, interrupt_id: str, now: int) -> str:
    """What opens the page of one wait for one addressee, for a week."""
    said = encode([target.name, interrupt_id, target.answers, now + ANSWER_SECONDS])
    text = base64.urlsafe_b64encode(said).decode().rstrip("=")
    return f"{text}.{_seal(target, said)}"


def check_answer_token(targets: list[Target], token: str, now: int) -> tuple[AnswerPass, Target] | None:
    """Whose it is, and for which wait; None when it is over, or none."""
    text, _, seal = token.partition(".")
    try:
        said = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        found = AnswerPass(*msgspec.convert(decode(said), tuple[str, str, str, int]))
    except (ValueError, TypeError, msgspec.ValidationError):
        return None
    target = next((each for each in targets if each.name == found.target), None)
    if target is None or not hmac.compare_digest(_seal(target, said), seal):
        return None
    return (found, target) if found.until >= now and found.actor == target.answers else None


def _seal(target: Target, said: bytes) -> str:
    return hmac.new(target.secret.encode(), b"answer " + said, hashlib.sha256).hexdigest()
