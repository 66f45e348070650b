"""Telling people: everything once at least, under one id, in order, also over deaths; signed, and to nobody unasked."""

import json
import socketserver
import stat
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from outlast import Outlast, Run, flow
from outlast.doors.cli.group import cli
from outlast.errors import NameInvalid
from outlast.worker import notify as telling
from outlast.worker.notify import Notifier
from outlast.worker.send import Notice, NotTaken, send, signature
from outlast.worker.targets import Target, Targets, answer_token, check_answer_token


@flow(name="asking")
def asking(run: Run, question: str) -> bool:
    return bool(run.pause_for("approval", payload={"question": question})["approved"])


@flow(name="breaking")
def breaking(run: Run) -> None:
    raise ValueError("no luck")


class Receiver:
    """Takes webhooks, or refuses them."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], Any]] = []
        self.refuses = False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if not outer.refuses:
                    outer.got.append(({k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(503 if outer.refuses else 200)
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
    hook(outlast, receiver)
    receiver.refuses = True
    runs = [outlast.run(asking, f"{number}?").run_id for number in range(3)]
    now, waits = 1000.0, []
    for _ in range(8):
        notifier(outlast).send_all(now)
        state = notifier(outlast).told("ops")
        waits.append(state.next_at - now)
        assert notifier(outlast).send_all(state.next_at - 0.1) == 0  # not before its time
        now = state.next_at
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128]
    receiver.refuses = False
    assert notifier(outlast).send_all(now) == 3
    assert [each["run_id"] for each in receiver.told] == runs


def test_a_death_between_commit_and_sending_loses_nothing_and_one_after_it_repeats_the_id(
    outlast: Outlast, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook(outlast, receiver)
    outlast.run(asking, "Publish?")  # committed; whoever was to tell it is dead

    def die(self: Notifier, target: Target, state: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(Notifier, "_keep", die)
        with pytest.raises(SystemExit):
            notifier(outlast).send_all()
    assert notifier(outlast).send_all() == 1
    assert len(receiver.told) == 2
    assert len({each["id"] for each in receiver.told}) == 1


def test_a_receiver_can_tell_who_sent_it(outlast: Outlast, receiver: Receiver) -> None:
    made = hook(outlast, receiver)
    outlast.run(asking, "Publish?")
    notifier(outlast).send_all()
    ((headers, body),) = receiver.got
    assert headers["outlast-signature"] == signature(made.secret, headers["outlast-timestamp"], body)
    assert headers["outlast-signature"] != signature("another", headers["outlast-timestamp"], body)
    assert headers["outlast-id"] == json.loads(body)["id"]


def test_an_address_of_this_network_is_only_told_when_it_was_named(outlast: Outlast, receiver: Receiver) -> None:
    made = hook(outlast, receiver, private=False)
    with pytest.raises(NotTaken, match="private network"):
        send(made, telling.trial(made))
    assert receiver.got == []


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


def test_an_e_mail_has_the_question_and_the_link() -> None:
    said: list[str] = []

    class Smtp(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            data = False
            for raw in self.rfile:
                line = raw.decode().rstrip("\r\n")
                said.append(line)
                word = line.upper()
                if data and line != ".":
                    continue
                data = word == "DATA"
                self.wfile.write({"DATA": b"354 go on\r\n", "QUIT": b"221 bye\r\n"}.get(word, b"250 ok\r\n"))
                if word == "QUIT":
                    return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Smtp) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        place = f"127.0.0.1:{server.server_address[1]}"
        target = Target("mail", "email", "ann@example.org", server=place, sender="outlast@example.org", private=True)
        send(target, Notice("r:1", "opened", "now", "Publish?\r\nBcc: eve@example.org", "http://c/inbox/1"))
        server.shutdown()
    assert "RCPT TO:<ANN@EXAMPLE.ORG>" in [line.upper() for line in said]
    assert not any(line.startswith("Bcc:") for line in said[: said.index("")])
    assert any("http://c/inbox/1" in line for line in said)


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


def test_only_one_of_two_processes_tells(outlast: Outlast, receiver: Receiver) -> None:
    import fcntl

    hook(outlast, receiver)
    outlast.run(asking, "Publish?")
    with (outlast.home / "notify" / "default" / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert notifier(outlast).send_all() == 0
    assert notifier(outlast).send_all() == 1


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
