"""Who is told when something waits or fails: targets, kept in a file of the home that only its owner reads.

Their secrets are in no ledger and in no export. A target of the kind `command` runs a program of this machine, so that
targets are only ever added here, by who has the home.

And how a message reaches one: a signed webhook, a line for a chat, an e-mail, or a command of this machine. An address
is looked up once and connected to as it was found: a name cannot lead elsewhere between the two. What is of this
machine's own network is refused unless the target says so. Nothing is followed to another place.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import ipaddress
import os
import secrets
import smtplib
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.message import EmailMessage
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


# -- how a message reaches one ---------------------------------------------------------------------------

SECONDS = 10.0  # for a target to say anything at all
WHOLE_SECONDS = 30.0  # to take a message, however slowly it talks: the others wait behind it


class Notice(Struct, frozen=True):
    """What is told: of which event, in the words of a person."""

    id: str  # the same each time that it is sent
    kind: str  # one of ON
    at: str
    text: str
    link: str = ""
    answer_link: str = ""
    run_id: str = ""
    flow: str = ""
    task: str = ""
    scope: str = ""
    interrupt: str = ""


class NotTaken(Exception):
    """A target did not take a message; it is tried again."""


def send(target: Target, message: Notice) -> None:
    """Tell it. Raises NotTaken."""
    try:
        _SENDS[target.kind](target, message)
    except (OSError, http.client.HTTPException, smtplib.SMTPException, ValueError, subprocess.SubprocessError) as error:
        raise NotTaken(f"{type(error).__name__}: {error}"[:300]) from error


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """What a receiver compares: over the time and the body, so that neither can be another's."""
    return "v1=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def _webhook(target: Target, message: Notice) -> None:
    body, now = encode(message), str(int(time.time()))
    signed = {"outlast-id": message.id, "outlast-timestamp": now}
    _post(target, body, signed | {"outlast-signature": signature(target.secret, now, body)})


def _slack(target: Target, message: Notice) -> None:
    links = [f"<{link}|{word}>" for word, link in (("look", message.link), ("answer", message.answer_link)) if link]
    text = message.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    _post(target, encode({"text": " ".join([f"[{message.kind}] {text}", *links])}), {})


def _email(target: Target, message: Notice) -> None:
    mail = EmailMessage()
    mail["To"], mail["From"] = target.to, target.sender or target.user or target.to
    mail["Subject"] = " ".join(f"[Outlast] {message.kind}: {message.text}".split())[:180]
    mail["Message-ID"] = f"<{message.id.replace(':', '.')}@outlast>"
    links = [f"{word}: {link}" for word, link in (("Look", message.link), ("Answer", message.answer_link)) if link]
    mail.set_content("\n\n".join([message.text, f"{message.flow} {message.task}".strip(), *links]))
    host, _, port = target.server.partition(":")
    address = _address(host, int(port or 25), target.private)
    with smtplib.SMTP(timeout=SECONDS) as line, _cut_in_time(lambda: line.sock):
        line._host = host  # type: ignore[attr-defined]  # the name that its certificate is compared with
        line.connect(address, int(port or 25))
        line.ehlo()
        if line.has_extn("starttls"):
            line.starttls(context=ssl.create_default_context())
            line.ehlo()
        elif target.user and not target.private:
            raise NotTaken(f"{host} offers no STARTTLS, and a password is not sent where others can read it")
        if target.user:
            line.login(target.user, target.secret)
        line.send_message(mail)


def _command(target: Target, message: Notice) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", target.to], input=encode(message), timeout=WHOLE_SECONDS, capture_output=True
    )
    if done.returncode:
        raise NotTaken(f"it exited with {done.returncode}: {done.stderr[-200:].decode(errors='replace')}")


_SENDS = {"webhook": _webhook, "slack": _slack, "email": _email, "command": _command}


# -- over HTTP -------------------------------------------------------------------------------------------


def _post(target: Target, body: bytes, headers: dict[str, str]) -> None:
    place = urlsplit(target.to)
    port = place.port or (443 if place.scheme == "https" else 80)
    address = _address(place.hostname or "", port, target.private)
    connection = _Connection(place.hostname or "", port, address, secure=place.scheme == "https")
    path = (place.path or "/") + (f"?{place.query}" if place.query else "")
    told = {"content-type": "application/json", "user-agent": "outlast"} | headers
    try:
        with _cut_in_time(lambda: connection.sock):
            connection.request("POST", path, body, told)
            answer = connection.getresponse()
            answer.read(1000)
    finally:
        connection.close()
    if not 200 <= answer.status < 300:
        raise NotTaken(f"it answered {answer.status}")


@contextmanager
def _cut_in_time(line: Callable[[], socket.socket | None]) -> Iterator[None]:
    """The line is cut once the time for the whole message is over: each single answer may come in time."""

    def cut() -> None:
        if (found := line()) is not None:
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(WHOLE_SECONDS, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _Connection(http.client.HTTPConnection):
    """To an address that was looked up before, under the name that it was found by."""

    def __init__(self, host: str, port: int, address: str, *, secure: bool) -> None:
        super().__init__(host, port, timeout=SECONDS)
        self._address, self._secure = address, secure

    def connect(self) -> None:
        self.sock: Any = socket.create_connection((self._address, self.port), timeout=SECONDS)
        if self._secure:
            self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)


def _address(host: str, port: int, private: bool) -> str:
    """Where a name leads. Raises NotTaken for a place of this network that was not named as one."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0]
    if not private and not ipaddress.ip_address(str(found).partition("%")[0]).is_global:
        raise NotTaken(f"{host} leads to {found}, which is of a private network; add it with --private if it may be")
    return str(found)
