"""`Outlast("http://…")`: the surface, the errors and the patience of the client."""

import asyncio
import inspect
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncOutlast, Outlast, __version__, errors
from outlast.errors import (
    BudgetTooSmall,
    EmbeddedOnly,
    Forbidden,
    NameInvalid,
    NotFound,
    OperationConflict,
    OutlastError,
    RecordNotFound,
    RunNotFound,
    ServerUnreachable,
    Unauthenticated,
)
from outlast.python.handoffs import Handoffs
from outlast.python.sessions import Sessions
from outlast.python.tasks import Tasks, TaskSession
from outlast.python.workspace import Workspace
from outlast.remote import line as client_errors
from outlast.remote.handoffs import RemoteHandoffs
from outlast.remote.outlast import AsyncRemoteOutlast, RemoteOutlast
from outlast.remote.tasks import RemoteSessions, RemoteTasks, RemoteTaskSession
from outlast.remote.workspace import RemoteWorkspace

from .hostile import Answer, hostile
from .server import Served, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Path(tmp_path_factory.mktemp("home")) / "home") as found:
        yield found


def url(server: Served) -> str:
    return f"http://127.0.0.1:{server.port}"


@pytest.fixture
def outlast(server: Served) -> Iterator[Outlast]:
    with Outlast(url(server)) as found:
        yield found


# the surface

# On a loop; all else is done by a blocking one.
ON_A_LOOP = {"resume", "wait", "replay", "open", "follow_logs", "follow_all_events", "follow_events", "close", "worker"}
WORKS_THE_SAME = {  # these have nothing to do with a ledger, or reach it by methods that are a client's own
    Outlast: {"run", "start", "signals", "with_options", "resumable", "flow_folder"},
    AsyncOutlast: {name for name in dir(AsyncOutlast) if not name.startswith("_")} - ON_A_LOOP,
    Handoffs: {"lint", "diff", "apply", "relative", "relative_must", "output", "evidence", "rivals", "not_kept"},
    Workspace: set[str](),
    Tasks: {"open_task_session"},
    TaskSession: {"task_id", "scope", "actor", "claim_id"},
    Sessions: set[str](),
}
PAIRS = [
    (Outlast, RemoteOutlast),
    (AsyncOutlast, AsyncRemoteOutlast),
    (Handoffs, RemoteHandoffs),
    (Workspace, RemoteWorkspace),
    (Tasks, RemoteTasks),
    (TaskSession, RemoteTaskSession),
    (Sessions, RemoteSessions),
]


@pytest.mark.parametrize(("embedded", "remote"), PAIRS, ids=lambda kind: kind.__name__)
def test_a_client_has_every_method_with_the_same_signature(embedded: type, remote: type) -> None:
    assert issubclass(remote, embedded)
    for name in (name for name in dir(embedded) if not name.startswith("_")):
        there, here = inspect.getattr_static(embedded, name), inspect.getattr_static(remote, name)
        assert (there is here) == (name in WORKS_THE_SAME[embedded]), name
        if callable(there):
            wanted, found = inspect.signature(there), inspect.signature(here)
            assert list(found.parameters.values()) == list(wanted.parameters.values()), name


def test_both_are_made_by_the_same_words() -> None:
    for embedded, remote in PAIRS[:2]:
        wanted, found = (inspect.signature(kind.__init__).parameters for kind in (embedded, remote))
        assert list(found) == list(wanted)
        assert "key" in found


def test_a_url_gives_a_client_that_is_an_outlast(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    for made in (lambda: Outlast(url(server)), lambda: Outlast()):
        monkeypatch.setenv("OUTLAST_HOME", url(server))
        with made() as found:
            assert isinstance(found, Outlast)
            assert isinstance(found, RemoteOutlast)
            assert found.runs() == []
    assert isinstance(AsyncOutlast(url(server)), AsyncRemoteOutlast)


def test_awaited_it_does_the_same(server: Served) -> None:
    async def story() -> tuple[Any, ...]:
        async with AsyncOutlast(url(server)) as found:
            await found.sessions.append("talk", "user", "hello")
            task = await found.tasks.open("awaited")
            await task.record_event("looked", {"at": "it"})
            saved = await found.workspace.save("awaited.txt", "content")
            stored = await found.handoff.store("awaited", "Stopped", "Go on in a.py", bind=False)
            got = await found.handoff.recover("awaited")
            last = await found.sessions.last("talk", 1)
            return last[0].text, (await task.events())[-1].name, saved.text(), got.handoff.id == stored.id

    assert asyncio.run(story()) == ("hello", "looked", "content", True)


REFUSED: list[Callable[[Outlast], Any]] = [
    lambda outlast: outlast.open("script"),
    lambda outlast: outlast.resource("key", object()),
    lambda outlast: outlast.replay("run"),
    lambda outlast: outlast.gc(),
    lambda outlast: outlast.export("run", "file"),
    lambda outlast: outlast.import_("file"),
    lambda outlast: outlast.mirror("run"),
    lambda outlast: outlast.follow_logs("run"),
    lambda outlast: outlast.home,
    lambda outlast: outlast.handoff.export("anchor", "file"),
    lambda outlast: outlast.handoff.import_("file"),
    lambda outlast: outlast.workspace.recall("goal", embed=lambda texts: []),
    lambda outlast: outlast.sessions.window("talk", 10, tokens_of=len),
]


@pytest.mark.parametrize("ask", REFUSED)
def test_what_needs_the_home_says_what_to_do_instead(outlast: Outlast, ask: Callable[[Outlast], Any]) -> None:
    with pytest.raises(EmbeddedOnly) as error:
        ask(outlast)
    assert error.value.what_next


@pytest.mark.parametrize("scale", [1, 3, 0.4])
def test_a_tokenizer_of_ones_own_is_obeyed_by_the_client(outlast: Outlast, scale: float) -> None:
    texts = [
        {"kind": "note", "text": f"The exporter of team {n} writes {n * n} files.", "source": f"{n}"} for n in range(40)
    ]
    made = outlast.workspace.record_many(texts, scope=f"counted {scale}")

    def count(text: str) -> int:
        return int(len(text) * scale / 4) + 1

    pack = outlast.workspace.recall("exporter files", 400, tokens_of=count, scope=f"counted {scale}")
    assert {entry.ref for entry in pack.entries} <= {one.ref for one in made}
    assert (pack.tokens, pack.budget) == (count(pack.prompt()), 400)
    assert 200 < pack.tokens <= 400
    outlast.workspace.record("decision", "Nothing is published on Fridays.", pinned=True, scope=f"counted {scale}")
    with pytest.raises(BudgetTooSmall) as refused:
        outlast.workspace.recall("exporter", 5, tokens_of=count, scope=f"counted {scale}")
    enough = outlast.workspace.recall("exporter", refused.value.needed, tokens_of=count, scope=f"counted {scale}")
    assert enough.entries[0].hard


def test_many_records_go_in_at_once_and_mistakes_are_named_by_their_place(outlast: Outlast) -> None:
    made = outlast.workspace.record_many(
        [{"kind": "note", "text": "One."}, {"kind": "note", "text": "Two."}], scope="m"
    )
    assert [one.text for one in made] == ["One.", "Two."]
    assert outlast.workspace.record_many([], scope="m") == []
    with pytest.raises(RecordNotFound) as missing:
        outlast.workspace.record_many([{"kind": "note", "text": "x", "refs": ["record:none"]}], scope="m")
    assert missing.value.to_dict()["path"] == "records[0].refs"
    assert len(outlast.workspace.records(scope="m")) == 2


def test_a_class_of_ones_own_stays_embedded(server: Served) -> None:
    class Mine(Outlast):
        pass

    with pytest.raises(EmbeddedOnly):
        Mine(url(server))
    with pytest.raises(NameInvalid):
        Outlast("/nonexistent/never-made", key="ol_x_y")


def printed_by(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_without_its_package_the_extra_is_named() -> None:
    code = """
import sys
sys.modules["httpx2"] = None
from outlast import AsyncOutlast, Outlast
from outlast.errors import ExtraMissing
for surface in (Outlast, AsyncOutlast):
    try:
        surface("http://127.0.0.1:1")
    except ExtraMissing as error:
        print(error)
"""
    assert [("outlast[client]" in line) for line in printed_by(code).splitlines()] == [True, True]


def test_importing_outlast_imports_no_client() -> None:
    code = (
        "import sys, outlast; outlast.Outlast; print([m for m in sys.modules if 'httpx' in m or 'outlast.remote' in m])"
    )
    assert printed_by(code) == "[]"


# errors

SAME_ERRORS: list[Callable[[Outlast], Any]] = [
    lambda outlast: outlast.get("nope"),
    lambda outlast: outlast.plan("nope"),
    lambda outlast: outlast.resume("nope"),
    lambda outlast: outlast.resume("nope", accept=["code_changed"]),
    lambda outlast: outlast.abort("nope", why="over"),
    lambda outlast: outlast.skip("nope", "step", why=" "),
    lambda outlast: outlast.answer("nope", {"approved": True}),
    lambda outlast: outlast.signal("paid"),
    lambda outlast: outlast.signal("paid", body={1, 2}, task="t"),
    lambda outlast: outlast.handoff.recover("nope"),
    lambda outlast: outlast.handoff.recover("a", handoff_id="b"),
    lambda outlast: outlast.handoff.get(),
    lambda outlast: outlast.handoff.get("nope"),
    lambda outlast: outlast.handoff.settle("nope", "completed"),
    lambda outlast: outlast.handoff.settle("nope", "done"),  # type: ignore[arg-type]
    lambda outlast: outlast.handoff.claim("nope", take=True),
    lambda outlast: outlast.handoff.list("nope"),  # type: ignore[arg-type]
    lambda outlast: outlast.handoff.store("a", "s", "t", target_files=["../x"], repo_root="/"),
    lambda outlast: outlast.handoff.store("a", "s", "t", repo_root="/nonexistent"),
    lambda outlast: outlast.handoff.store("a", "token ghp_" + "a" * 36, "t", bind=False),
    lambda outlast: outlast.handoff.store("a", "s", "t", bind=False, expected_revision=7),
    lambda outlast: outlast.handoff.store("a", "s", "t", tenant_id="other"),
    lambda outlast: outlast.handoff.store("", "s", "t", bind=False),
    lambda outlast: outlast.handoff.store("a", "did it", "t", bind=False, strict=True),
    lambda outlast: outlast.workspace.get("nope"),
    lambda outlast: outlast.workspace.save("  ", b""),
    lambda outlast: outlast.workspace.save("n", {"no": "content"}),  # type: ignore[arg-type]
    lambda outlast: outlast.workspace.versions("nope"),
    lambda outlast: outlast.workspace.record("decision", ""),
    lambda outlast: outlast.workspace.record("decision", "t", refs=["record:nope"]),
    lambda outlast: outlast.workspace.link("record:nope", "supports", "record:none"),
    lambda outlast: outlast.workspace.recall("goal", -1),
    lambda outlast: outlast.workspace.record("opinion", "t"),
    lambda outlast: outlast.workspace.link("record:a", "likes", "record:b"),
    lambda outlast: outlast.workspace.checkpoint("c", refs=["artifact:default/none@1"], task="t"),
    lambda outlast: outlast.workspace.diff("a", "b"),
    lambda outlast: outlast.tasks.get("nope"),
    lambda outlast: outlast.tasks.session("nope"),
    lambda outlast: outlast.tasks.open("x" * 600),
    lambda outlast: outlast.tasks.open("fresh-task").resume_task(),
    lambda outlast: outlast.tasks.open("fresh-task").complete_task(),
    lambda outlast: outlast.tasks.open("fresh-task").pause_task("s", "t", anchor="mine"),
    lambda outlast: outlast.sessions.get("nope"),
    lambda outlast: outlast.sessions.append("s", "", "x"),
    lambda outlast: outlast.sessions.append("s", "user", object()),
    lambda outlast: outlast.sessions.set_memo("nope", "text"),
]


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outlast]:
    with Outlast(tmp_path_factory.mktemp("embedded") / "home") as found:
        yield found


@pytest.mark.parametrize("number", range(len(SAME_ERRORS)))
def test_an_error_is_the_same_by_class_code_and_text(number: int, outlast: Outlast, embedded: Outlast) -> None:
    told = []
    for each in (embedded, outlast):
        with pytest.raises(OutlastError) as error:
            SAME_ERRORS[number](each)
        told.append((type(error.value), error.value.code, str(error.value), set(error.value.facts)))
    assert told[0] == told[1]


def test_an_error_of_another_version_comes_in_the_class_that_is_nearest() -> None:
    raw = b'{"code": "moon_not_found", "detail": "no {moon}", "advice": "wait", "facts": {"moon": 1}}'
    error = client_errors.error_of(404, raw, "http://x")
    assert (type(error), error.code, str(error), error.facts) == (
        NotFound,
        "moon_not_found",
        "no {moon}; wait",
        {"moon": 1},
    )
    newer = b'{"code": "run_not_found", "detail": "no such run at all", "advice": "look", "facts": {}}'
    error = client_errors.error_of(404, newer, "http://x")
    assert (type(error), str(error)) == (RunNotFound, "no such run at all; look")
    strange = client_errors.error_of(502, b"<html>", "http://x")
    assert isinstance(strange, errors.Unavailable)
    assert "<html>" in str(strange)


def test_every_error_of_ours_can_be_made_again() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, OutlastError)]
    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)


# who asks


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[Served]:
    """One that has keys, and lets nobody in without."""
    with served(tmp_path / "home") as found:
        yield found


def test_a_key_says_who_asks(keyed: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    server = keyed
    reads = server.keys().create("reader", roles=["read"]).text
    writes = server.keys().create("writer", roles=["write"]).text
    with Outlast(url(server), key=reads) as outlast:
        assert outlast.runs() == []
        with pytest.raises(Forbidden):
            outlast.signal("paid", task="t")
    monkeypatch.setenv("OUTLAST_API_KEY", writes)
    with Outlast(url(server)) as outlast:
        assert outlast.signal("paid", task="t").actor == "writer"
    with Outlast(url(server), actor="somebody else") as outlast, pytest.raises(Forbidden, match="another actor"):
        outlast.signal("paid", task="t")
    with Outlast(url(server), key="ol_none_such") as outlast, pytest.raises(Unauthenticated):
        outlast.runs()
    with pytest.raises(NameInvalid):
        Outlast(url(server), key="two words")


def test_scope_and_actor_go_along(server: Served) -> None:
    with Outlast(url(server), scope="Zürich/2", actor="Ünal") as outlast:
        saved = outlast.workspace.save("a.txt", "x")
        assert (saved.scope, saved.source.actor) == ("Zürich/2", "Ünal (unproven)")
        assert outlast.workspace.save("a.txt", "x", scope="other", actor="Eve").scope == "other"
        assert [each.ref for each in outlast.workspace.list()] == [saved.ref]


@pytest.mark.parametrize("name", ["a/b", "..", "a b", "é☃", "100%", "a?b#c", "a&b=c", "%2F", "-x", "x" * 400])
def test_names_of_any_kind_are_found_again(outlast: Outlast, name: str) -> None:
    task = outlast.tasks.open(name)
    task.record_event("seen", {"name": name})
    assert outlast.tasks.get(name).task == name
    assert [each.body for each in task.events()][-1] == {"name": name}
    saved = outlast.workspace.save(name, name)
    assert outlast.workspace.get(saved.ref).text() == name
    outlast.sessions.append(name, "user", name)
    assert [each.content for each in outlast.sessions.messages(name)] == [name]
    outlast.handoff.store(f"task:{name}", "Stopped", "Go on", bind=False)
    assert outlast.handoff.recover(f"task:{name}").anchor == f"task:{name}"


# patience


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Falters:
    """Sends what it is asked on to a server, but only from the n-th time on: before, it breaks off in some way."""

    def __init__(self, server: Served, ways: list[str]) -> None:
        self._server, self._ways, self.asked = server, ways, 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                taken, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(taken,), daemon=True).start()

    def _answer(self, taken: socket.socket) -> None:
        with taken:
            raw = _whole(taken)
            way = self._ways[self.asked] if self.asked < len(self._ways) else "answer"
            self.asked += 1
            if way == "502":
                taken.sendall(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            if way in ("answer", "swallow"):
                with socket.create_connection(("127.0.0.1", self._server.port)) as line:
                    line.sendall(raw.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
                    answer = b"".join(iter(lambda: line.recv(1 << 16), b""))
                if way == "answer":
                    taken.sendall(answer)

    def close(self) -> None:
        self._listening.close()


def _whole(taken: socket.socket) -> bytes:
    raw = b""
    while b"\r\n\r\n" not in raw:
        raw += taken.recv(1 << 16)
    head, _, body = raw.partition(b"\r\n\r\n")
    lengths = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    while lengths and len(body) < lengths[0]:
        body += taken.recv(1 << 16)
    return head + b"\r\n\r\n" + body


def test_a_write_whose_answer_was_lost_is_asked_for_again_and_done_once(server: Served) -> None:
    falters = Falters(server, ["break", "502", "swallow", "swallow"])
    with Outlast(falters.url, store_options={"retry_seconds": 0.01}) as outlast:
        message = outlast.sessions.append("falters", "user", "once")
    falters.close()
    assert falters.asked == 5
    assert message.replayed
    with server.opened() as there:
        assert [each.content for each in there.sessions.messages("falters")] == ["once"]


def test_what_a_server_refuses_is_not_asked_for_again(server: Served) -> None:
    falters = Falters(server, [])
    with Outlast(falters.url) as outlast, pytest.raises(RunNotFound):
        outlast.get("nope")
    falters.close()
    assert falters.asked == 1


def test_nobody_there_is_told_within_the_deadline() -> None:
    place = f"http://127.0.0.1:{free_port()}"
    began = time.monotonic()
    options = {"deadline_seconds": 0.4, "retry_seconds": 0.01}
    with Outlast(place, store_options=options) as outlast, pytest.raises(ServerUnreachable) as error:
        outlast.runs()
    assert time.monotonic() - began < 20
    assert error.value.tries > 1
    assert place in str(error.value)


def test_a_server_that_is_down_is_said_within_three_seconds_and_one_that_was_there_is_waited_for(
    server: Served,
) -> None:
    with Outlast(f"http://127.0.0.1:{free_port()}") as outlast:
        assert outlast._line._deadline < 3  # type: ignore[attr-defined]
        with pytest.raises(ServerUnreachable):
            outlast.runs()
    with Outlast(f"http://127.0.0.1:{server.port}") as outlast:
        assert outlast._line._deadline < 3  # type: ignore[attr-defined]
        outlast.runs()
        assert outlast._line._deadline == 30  # type: ignore[attr-defined]


@pytest.mark.parametrize("status", [502, 504])
def test_a_proxy_that_finds_nobody_behind_it_is_no_server_that_was_there(status: int) -> None:
    options = {"absent_seconds": 0.2, "retry_seconds": 0.01, "deadline_seconds": 600.0}
    with hostile(lambda heard: Answer(status, b"<h1>nobody</h1>")) as proxy:
        with Outlast(proxy.url, store_options=options) as outlast, pytest.raises(OutlastError, match=str(status)):
            outlast.runs()
        assert len(proxy.heard) > 1


def test_a_server_that_keeps_saying_503_is_told_in_its_own_words(tmp_path: Path) -> None:
    answer = b'{"code":"store_busy","detail":"busy","advice":"wait","facts":{"path":"x"}}'
    head = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\ncontent-length: %d\r\n\r\n"
    listening = socket.create_server(("127.0.0.1", 0))
    asked = []

    def serve() -> None:
        while True:
            try:
                taken, _ = listening.accept()
            except OSError:
                return
            with taken:
                asked.append(_whole(taken))
                taken.sendall(head % len(answer) + answer)

    threading.Thread(target=serve, daemon=True).start()
    options = {"deadline_seconds": 0.3, "retry_seconds": 0.01}
    place = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with Outlast(place, store_options=options) as outlast, pytest.raises(errors.StoreBusy):
        outlast.runs()
    listening.close()
    assert len(asked) > 1


def test_an_operation_id_of_ones_own_is_kept(outlast: Outlast) -> None:
    first = outlast.sessions.append("own", "user", "a", operation_id="mine")
    again = outlast.sessions.append("own", "user", "a", operation_id="mine")
    assert (first.replayed, again.replayed, again) == (False, True, first)
    with pytest.raises(OperationConflict):
        outlast.sessions.append("own", "user", "b", operation_id="mine")


def test_what_is_no_address_is_refused() -> None:
    for wrong in ("http://", "http://host:x", "http://h/?q=1", "http://user:pw@host"):
        with pytest.raises(NameInvalid):
            Outlast(wrong)
    with pytest.raises(NameInvalid):
        Outlast("http://127.0.0.1:1", store_options={"patience": 1})
    assert __version__
