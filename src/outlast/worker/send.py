"""How a message reaches a target: a signed webhook, a line for a chat, an e-mail, or a command of this machine.

An address is looked up once and connected to as it was found: a name cannot lead elsewhere between the two. What is of
this machine's own network is refused unless the target says so. Nothing is followed to another place.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import ipaddress
import smtplib
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.message import EmailMessage
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from outlast.values.codec import encode
from outlast.worker.targets import Target

SECONDS = 10.0  # for a target to say anything at all
WHOLE_SECONDS = 30.0  # to take a message, however slowly it talks: the others wait behind it


class Notice(Struct, frozen=True):
    """What is told: of which event, in the words of a person."""

    id: str  # the same each time that it is sent
    kind: str  # one of targets.ON
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
