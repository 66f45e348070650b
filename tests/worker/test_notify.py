"""Telling people: everything once at least, under one id, in order, also over deaths; signed, and to nobody unasked."""

import contextlib
import json
import os
import signal
import socket
import socketserver
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from outlast import Outlast, Run, effect, failpoints, flow, step
from outlast.doors.cli.group import cli
from outlast.doors.console.screens import SCREENS
from outlast.errors import NameInvalid
from outlast.operations.table import OPERATIONS
from outlast.testing.crashes import ChildEnd, in_child
from outlast.worker import targets as sending
from outlast.worker.notify import Notifier, trial
from outlast.worker.targets import (
    Notice,
    NotTaken,
    Target,
    Targets,
    answer_token,
    check_answer_token,
    send,
    signature,
)


@flow(name="asking")
def asking(run: Run, question: str) -> bool:
    return bool(run.pause_for("approval", payload={"question": question})["approved"])


@flow(name="hurried")
def hurried(run: Run) -> bool:
    return bool(run.pause_for("approval", payload={"question": "Now?"}, deadline="3h")["approved"])


@step
def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@flow(name="dying")
def dying(run: Run) -> None:
    die()


@effect
def pay() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@flow(name="paying")
def paying(run: Run) -> None:
    pay()


@flow(name="breaking")
def breaking(run: Run) -> None:
    raise ValueError("no luck")


class Receiver:
    """Takes webhooks, or refuses them."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], Any]] = []
        self.refuses, self.arrived = False, threading.Event()
        self.answers: tuple[int, dict[str, str]] = (200, {})
        self.meanwhile: Callable[[], object] = lambda: None  # while a message is being taken
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.meanwhile()
                if not outer.refuses:
                    outer.got.append(({k.lower(): v for k, v in self.headers.items()}, body))
                    outer.arrived.set()
                status, headers = outer.answers
                self.send_response(503 if outer.refuses else status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *args: Any) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def told(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.got]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def outlast(tmp_path: Path) -> Iterator[Outlast]:
    with Outlast(tmp_path / "home") as made:
        yield made


def hook(outlast: Outlast, receiver: Receiver, **how: Any) -> Target:
    given = {"on": ("opened", "failed"), "private": True, "link": "http://console.example"} | how
    made = Targets(outlast.home).add(Target("ops", "webhook", receiver.url, **given))
    notifier(outlast).begin(made)
    return made


def notifier(outlast: Outlast) -> Notifier:
    return Notifier(outlast, outlast.home, "default")


def test_what_waits_and_what_fails_is_told_in_order_with_a_link(outlast: Outlast, receiver: Receiver) -> None:
    assert outlast.run(breaking, task="before").status == "failed"
    hook(outlast, receiver)
    waiting = outlast.run(asking, "Publish?").run_id
    failed = outlast.run(breaking)
    assert failed.status == "failed"
    assert notifier(outlast).send_all() == 2
    first, second = receiver.told
    wait = outlast.interrupts(waiting)[0].id
    assert (first["kind"], first["run_id"], first["link"]) == (
        "opened",
        waiting,
        f"http://console.example/inbox/{wait}",
    )
    assert "Publish?" in first["text"]
    assert (second["kind"], second["run_id"]) == ("failed", failed.run_id)
    assert "no luck" in second["text"]
    assert notifier(outlast).send_all() == 0


def test_a_receiver_that_is_down_is_told_everything_when_it_is_back(outlast: Outlast, receiver: Receiver) -> None:
    made, teller = hook(outlast, receiver), notifier(outlast)
    receiver.refuses = True
    now, waits, runs = 1000.0, list[float](), list[str]()
    while now < 1060:  # a minute, in which more happens
        runs.append(outlast.run(asking, f"{len(runs)}?").run_id)
        assert teller.send_all(now) == 0
        waits.append(teller.told(made).next_at - now)
        assert notifier(outlast).send_all(now + waits[-1] - 0.1) == 0  # not before its time, whoever asks
        now += waits[-1]
    assert waits == [1, 2, 4, 8, 16, 32]
    assert "503" in teller.told(made).error
    receiver.refuses = False
    assert notifier(outlast).send_all(now) == len(runs)
    assert [each["run_id"] for each in receiver.told] == runs
    assert teller.told(made).tries == 0


def test_what_is_told_is_known_to_everybody_on_the_ledger(outlast: Outlast, receiver: Receiver) -> None:
    made = hook(outlast, receiver)
    outlast.run(asking, "Publish?")
    assert notifier(outlast).send_all() == 1
    with Outlast(outlast.home) as another:
        assert notifier(another).send_all() == 0
        assert notifier(another).told(made).upto == notifier(outlast).told(made).upto


def test_a_deadline_that_comes_near_is_told_once(outlast: Outlast, receiver: Receiver) -> None:
    hook(outlast, receiver, on=("deadline",))
    opened = time.time()
    wait = outlast.interrupts(outlast.run(hurried).run_id)[0].id
    teller = notifier(outlast)
    assert teller.send_all(opened) == 0  # it has three hours
    assert teller.send_all(opened + 2.5 * 3600) == 1
    assert [teller.send_all(opened + 2.5 * 3600 + seconds) for seconds in (20, 40)] == [0, 0]
    (told,) = receiver.told
    assert (told["kind"], told["interrupt"], told["link"]) == ("deadline", wait, f"http://console.example/inbox/{wait}")
    assert "until" in told["text"]


def test_a_contested_handoff_is_told_once(outlast: Outlast, receiver: Receiver) -> None:
    hook(outlast, receiver, on=("contested",))
    told = []
    for who, risk in (("ann", "low"), ("ben", "high")):  # he had not read what she stored
        outlast.handoff.store("repair", "Stopped at the header", "Open a.py.", risk=risk, actor=who, bind=False)
        told += [notifier(outlast).send_all(), notifier(outlast).send_all()]
    assert told == [0, 0, 1, 0]
    (one,) = receiver.told
    assert (one["kind"], one["link"]) == ("contested", "http://console.example/handoff?anchor=repair&scope=default")


# -- over deaths -----------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, receiver: Receiver) -> Path:
    """A home with somebody to tell, which nobody has open: what is forked opens it by itself."""
    with Outlast(tmp_path / "home") as outlast:
        hook(outlast, receiver, on=("opened", "crashed"))
    return tmp_path / "home"


def ask(home: Path, *questions: str) -> list[str]:
    with Outlast(home) as outlast:
        return [outlast.run(asking, question, task=question).run_id for question in questions]


def told_in(home: Path, now: float | None = None) -> int:
    with Outlast(home) as outlast:
        return notifier(outlast).send_all(now)


def ended(home: Path, hook: Callable[[str], None]) -> ChildEnd:
    """How a process ended that tells, with a hook at every point."""

    def child(tell: object) -> None:
        failpoints.arm(hook)
        told_in(home)

    return in_child(child, 60)


@pytest.mark.crash
def test_a_run_whose_process_died_is_told_once_and_again_when_it_dies_again(home: Path, receiver: Receiver) -> None:
    now = time.time()
    for times in (1, 2):
        assert in_child(lambda tell: Outlast(home).run(dying, task="d"), 60).killed
        assert told_in(home, now + times * 60) == 1
        assert told_in(home, now + times * 60 + 30) == 0
    first, second = receiver.told
    assert (first["kind"], first["run_id"]) == ("crashed", second["run_id"])
    assert first["id"] != second["id"]
    assert "the process that ran it died" in first["text"]


@pytest.mark.crash
def test_an_effect_in_doubt_and_a_run_that_ended_are_told(tmp_path: Path, receiver: Receiver) -> None:
    home = tmp_path / "home"
    with Outlast(home) as outlast:
        hook(outlast, receiver, on=("doubt", "finished"))
    assert in_child(lambda tell: Outlast(home).run(paying, task="p"), 60).killed
    with Outlast(home) as outlast:
        run = outlast.runs()[0].id
        assert outlast.resume(run).status == "waiting"
        assert notifier(outlast).send_all() == 1
        outlast.answer(outlast.interrupts(run)[0].id, {"choice": "skip", "result": None, "why": "it was paid"})
        assert outlast.resume(run).status == "succeeded"
        assert notifier(outlast).send_all() == 1
    assert [(each["kind"], each["run_id"]) for each in receiver.told] == [("doubt", run), ("finished", run)]
    assert "pay" in receiver.told[0]["text"]


@pytest.mark.crash
def test_a_death_between_commit_and_sending_loses_nothing_and_one_after_it_repeats_the_id(
    home: Path, receiver: Receiver, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    runs = ask(home, "one?", "two?")
    assert not ended(home, failpoints.log_to(str(log))).killed
    reached = Counter(log.read_text().split())
    assert set(reached) >= set(failpoints.NOTIFY_POINTS)
    for point, nth in sorted({(point, nth) for point, times in reached.items() for nth in (1, 2, times)}):
        if nth > reached[point]:
            continue
        runs += ask(home, f"{point} {nth}?", f"{point} {nth}, too?")
        before = len(receiver.told)
        assert ended(home, failpoints.kill_at(point, nth)).killed, (point, nth)
        told_in(home)  # at once: a process that is seen to be dead holds nothing
        found = [(each["id"], each["run_id"]) for each in receiver.told]
        assert [run for _, run in dict.fromkeys(found)] == runs, (point, nth)  # none is lost, all in order, by one id
        assert len(found) - before <= 3, (point, nth)  # at most the last one twice


@pytest.mark.crash
def test_several_processes_tell_everything_once(home: Path, receiver: Receiver) -> None:
    runs = ask(home, *(f"{number}?" for number in range(40)))
    words = [sys.executable, "-m", "outlast", "notify", "send", "--home", str(home)]
    children = [subprocess.Popen(words, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    told_in(home)
    assert [each["run_id"] for each in receiver.told] == runs


@pytest.mark.crash
def test_a_worker_tells_what_one_that_was_killed_before_it_could_send_left(home: Path, receiver: Receiver) -> None:
    runs = ask(home, "Publish?")
    words = [sys.executable, "-m", "outlast", "work", "--home", str(home), "--quiet"]
    first = subprocess.run(words, env=os.environ | {"OUTLAST_FAILPOINT": "notify.held"}, timeout=60, check=False)
    assert first.returncode == -signal.SIGKILL
    assert receiver.told == []
    with subprocess.Popen(words) as second:
        try:
            assert receiver.arrived.wait(60)
        finally:
            second.terminate()
    assert [each["run_id"] for each in receiver.told] == runs


def test_the_receiver_of_the_docs_takes_what_is_ours_and_nothing_else(outlast: Outlast, receiver: Receiver) -> None:
    page = (Path(__file__).parents[2] / "docs" / "notifications.md").read_text()
    code = page.partition("```python\n")[2].partition("```")[0]
    known: dict[str, Any] = {}
    exec(code, known)
    made = hook(outlast, receiver)
    outlast.run(asking, "Publish?")
    notifier(outlast).send_all()
    ((headers, body),) = receiver.got

    def took(headers: dict[str, str] = headers, body: bytes = body, secret: str = made.secret) -> Any:
        return known["received"](headers, body, secret, seen)

    seen: set[str] = set()
    assert took(secret="another") is None
    assert took(body=body.replace(b"Publish?", b"Delete?!")) is None
    old = str(int(time.time()) - 3600)
    late = {"outlast-timestamp": old, "outlast-signature": signature(made.secret, old, body)}
    assert took(headers | late) is None
    assert took(headers | {"outlast-timestamp": str(int(time.time()))[:-1] + "x"}) is None
    assert took() == json.loads(body)
    assert headers["outlast-id"] == json.loads(body)["id"]
    assert took() is None  # it comes twice


def test_an_address_of_this_network_is_only_told_when_it_was_named(outlast: Outlast, receiver: Receiver) -> None:
    made = hook(outlast, receiver, private=False)
    with pytest.raises(NotTaken, match="private network"):
        send(made, trial(made))
    assert receiver.got == []


def test_a_target_that_sends_one_elsewhere_was_not_told_and_nobody_goes_there(
    outlast: Outlast, receiver: Receiver
) -> None:
    made, elsewhere = hook(outlast, receiver), Receiver()
    receiver.answers = (307, {"location": elsewhere.url})
    with pytest.raises(NotTaken, match="307"):
        send(made, trial(made))
    elsewhere.close()
    assert elsewhere.got == []


def test_a_target_that_talks_for_ever_is_cut_off_and_the_others_are_told(
    outlast: Outlast, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "WHOLE_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ended = threading.Event()
        threading.Thread(target=_drip, args=(listening, ended), daemon=True).start()
        slow = Target("a", "webhook", f"http://127.0.0.1:{listening.getsockname()[1]}/", on=("opened",), private=True)
        notifier(outlast).begin(Targets(outlast.home).add(slow))
        hook(outlast, receiver)
        outlast.run(asking, "Publish?")
        assert notifier(outlast).send_all() == 1
        assert ended.wait(30)
    assert [each["kind"] for each in receiver.told] == ["opened"]
    assert notifier(outlast).told(slow).tries == 1


def _drip(listening: socket.socket, ended: threading.Event) -> None:
    """Answers a letter at a time, and never comes to say whether it took anything."""
    line, _ = listening.accept()
    with line, contextlib.suppress(OSError):
        while not ended.wait(0.02):
            line.sendall(b"x")
    ended.set()


def test_secrets_are_for_the_owner_alone_and_in_no_ledger(outlast: Outlast, receiver: Receiver) -> None:
    made = hook(outlast, receiver)
    assert stat.S_IMODE((outlast.home / "notify.json").stat().st_mode) == 0o600
    kept = [path for path in outlast.home.rglob("*") if path.is_file() and made.secret.encode() in path.read_bytes()]
    assert kept == [outlast.home / "notify.json"]
    assert made.secret not in json.dumps(made.shown())


def test_a_chat_is_told_in_its_own_form_and_a_command_gets_all_of_it(tmp_path: Path, receiver: Receiver) -> None:
    message = Notice("1:2", "opened", "now", "Publish <b>&?", "http://c/inbox/1")
    send(Target("chat", "slack", receiver.url, private=True), message)
    assert receiver.told[0] == {"text": "[opened] Publish &lt;b&gt;&amp;? <http://c/inbox/1|look>"}
    out = tmp_path / "out.json"
    send(Target("cmd", "command", f"cat > {out}"), message)
    assert json.loads(out.read_text())["text"] == "Publish <b>&?"
    with pytest.raises(NotTaken, match="exited with 3"):
        send(Target("cmd", "command", "exit 3"), message)


class Mail:
    """A mail server that takes everything, but for whom it was told to refuse."""

    def __init__(self, *offers: str) -> None:
        said = self.said = list[str]()
        answers = {"DATA": "354 go on", "QUIT": "221 bye", "EHLO": "250-here\r\n" + "\r\n".join([*offers, "250 OK"])}

        class Smtp(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self._say("220 here")
                data = False
                for raw in self.rfile:
                    line = raw.decode().rstrip("\r\n")
                    said.append(line)
                    if data and line != ".":
                        continue
                    word = line.upper().partition(" ")[0]
                    data = word == "DATA"
                    self._say("550 nobody" if "nobody@" in line else answers.get(word, "250 ok"))
                    if word == "QUIT":
                        return

            def _say(self, line: str) -> None:
                self.wfile.write(f"{line}\r\n".encode())

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Smtp)
        self.place = f"127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> "Mail":
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def test_an_e_mail_has_the_question_and_the_link() -> None:
    with Mail() as mail:
        target = Target(
            "mail", "email", "ann@example.org", server=mail.place, sender="outlast@example.org", private=True
        )
        send(target, Notice("r:1", "opened", "now", "Publish?\r\nBcc: eve@example.org", "http://c/inbox/1"))
    said = mail.said
    assert "RCPT TO:<ANN@EXAMPLE.ORG>" in [line.upper() for line in said]
    assert not any(line.startswith("Bcc:") for line in said[: said.index("")])
    assert any("http://c/inbox/1" in line for line in said)


def test_an_e_mail_that_was_refused_is_told_again(outlast: Outlast) -> None:
    with Mail() as mail:
        made = Targets(outlast.home).add(Target("mail", "email", "nobody@example.org", server=mail.place, private=True))
        notifier(outlast).begin(made)
        outlast.run(asking, "Publish?")
        assert notifier(outlast).send_all() == 0
        assert "550" in notifier(outlast).told(made).error
        Targets(outlast.home).add(msgspec.structs.replace(made, to="ann@example.org"))
        assert notifier(outlast).send_all(time.time() + 3600) == 1
    assert "." in mail.said  # the end of what was taken


def test_a_password_is_sent_to_no_mail_server_that_cannot_keep_it_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    # as one of the world
    monkeypatch.setattr("outlast.worker.targets._address", lambda host, port, private: "127.0.0.1")
    with Mail("250-AUTH PLAIN LOGIN") as mail:
        target = Target("mail", "email", "ann@example.org", server=mail.place, user="ann", secret="hunter2")
        with pytest.raises(NotTaken, match="STARTTLS"):
            send(target, Notice("r:1", "opened", "now", "Publish?", ""))
        assert not any(line.startswith("AUTH") for line in mail.said)


def test_a_link_answers_for_one_wait_one_person_and_a_while(outlast: Outlast, receiver: Receiver) -> None:
    made = hook(outlast, receiver, answers="ann")
    token = answer_token(made, "abc", now=1000)
    found = check_answer_token([made], token, now=2000)
    assert found is not None
    assert (found[0].interrupt, found[0].actor) == ("abc", "ann")
    assert check_answer_token([made], token, now=1000 + 8 * 86400) is None
    assert check_answer_token([made], token[:-1] + ("0" if token[-1] != "0" else "1"), now=2000) is None
    assert check_answer_token([], token, now=2000) is None
    assert check_answer_token([made], "nonsense", now=2000) is None
    another = Targets(outlast.home).add(msgspec.structs.replace(made, answers="bob"))
    assert check_answer_token([another], token, now=2000) is None  # she was taken off: what she was sent is over


def test_only_one_of_two_processes_tells(outlast: Outlast, receiver: Receiver) -> None:
    hook(outlast, receiver)
    outlast.run(asking, "Publish?")
    with Outlast(outlast.home) as another:
        receiver.meanwhile = lambda: notifier(another).send_all()
        assert notifier(outlast).send_all() == 1
    assert len(receiver.told) == 1


def test_what_cannot_be_told_is_refused_when_it_is_added(outlast: Outlast) -> None:
    for wrong in (
        Target("a", "webhook", "ftp://x"),
        Target("a", "email", "ann@example.org"),
        Target("a", "webhook", "https://x", on=("nothing",)),
        Target("a", "webhook", "https://x", answers="ann"),
        Target("", "webhook", "https://x"),
    ):
        with pytest.raises(NameInvalid):
            Targets(outlast.home).add(wrong)


def test_a_target_is_added_where_the_home_is_and_by_no_request() -> None:
    """One of the kind `command` runs a program here: who has a key alone must not be able to say which."""
    asked = [*OPERATIONS.values()]
    assert [each.name for each in asked if "notify" in each.path or "target" in each.path.split("/")] == []
    assert [
        each.name for each in asked if each.writes and {"command", "to"} <= set(each.request.__struct_fields__)
    ] == []
    assert [screen.path for screen in SCREENS if screen.posts and "notify" in screen.path] == []


def test_the_commands_add_list_test_and_remove(tmp_path: Path, receiver: Receiver) -> None:
    home = ["--home", str(tmp_path / "home")]

    def said(*words: str) -> str:
        result = CliRunner().invoke(cli, ["notify", *words, *home])
        assert result.exit_code == 0, result.output
        return result.output

    assert "from now on" in said("add", "ops", "webhook", receiver.url, "--private", "--on", "finished")
    assert receiver.url in said("list")
    said("test", "ops")
    assert receiver.told[0]["text"].startswith("This is a test")
    with Outlast(tmp_path / "home") as outlast:
        outlast.run(asking, "Publish?")
        outlast.abort(outlast.runs()[0].id, why="enough")
    assert "1 sent" in said("send")
    assert receiver.told[1]["kind"] == "finished"
    said("remove", "ops")
    assert "nobody is told" in said("list")
