"""Nobody takes the server from the others: connections, slow bodies, long looks, the share of each key, the log."""

import json
import os
import re
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast.doors.http.log import OF_A_KIND, TEXT_LENGTH, WINDOW_SECONDS, WITH_A_TRACE, Handler, RequestLog
from outlast.doors.http.serve import most_connections
from outlast.errors import NameInvalid

from .http_world import FLOWS, HANDOFF
from .server import Reply, Served, served

UPLOAD = "/v1/workspace/artifacts?name="
MIB = 1 << 20


@contextmanager
def line(server: Served, sent: bytes = b"") -> Iterator[socket.socket]:
    """A connection of its own, on which so much was sent."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as found:
        found.sendall(sent)
        yield found


def head(method: str, path: str, key: str = "", **headers: object) -> bytes:
    given = {"host": "127.0.0.1", "authorization": f"Bearer {key}"} if key else {"host": "127.0.0.1"}
    given |= {name.replace("_", "-"): str(value) for name, value in headers.items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "", ""]
    return "\r\n".join(lines).encode()


def begun_upload(name: str, size: int, key: str = "") -> bytes:
    """The beginning of an upload whose end does not come."""
    return head("PUT", UPLOAD + name, key, content_length=size) + b"a little"


def answer(found: socket.socket) -> bytes:
    """All that comes until the server closes."""
    parts = []
    while piece := found.recv(1 << 16):
        parts.append(piece)
    return b"".join(parts)


def status(raw: bytes) -> int:
    return int(raw.split(b" ", 2)[1])


def code(raw: bytes) -> str:
    return str(json.loads(raw.partition(b"\r\n\r\n")[2])["code"])


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.005)


def under_way(server: Served) -> int:
    """Requests that the server has begun and not answered, this one aside."""
    found = re.search(rb"^outlast_http_requests_under_way (\d+)", server.get("/metrics").raw, re.MULTILINE)
    assert found
    return int(found[1]) - 1


# -- connections -------------------------------------------------------------------------------------


def test_headers_that_do_not_come_in_time_end_the_connection(tmp_path: Path) -> None:
    with served(tmp_path / "home", header_seconds=0.5) as server:
        with line(server) as silent, line(server, b"GET /healthz HTTP/1.1\r\nhost: loc") as half:
            assert answer(silent) == b""
            told = answer(half)
        assert (status(told), code(told)) == (408, "headers_too_slow")
        assert server.get("/healthz").status == 200


def test_headers_that_drip_are_not_waited_for(tmp_path: Path) -> None:
    """Every byte in time does not help: all of them have one time together, also on a connection that was used."""
    with served(tmp_path / "home", header_seconds=2.0) as server, line(server, head("GET", "/healthz")) as used:
        until(lambda: b"alive" in used.recv(1 << 16))
        began, told = time.monotonic(), b""
        while not told:
            assert time.monotonic() - began < 30
            told = drip(used)
        told += answer_or_reset(used)
        assert (status(told), code(told)) == (408, "headers_too_slow")


def test_the_oldest_that_never_asked_gives_way_for_a_new_one(tmp_path: Path) -> None:
    with served(tmp_path / "home", connections=20) as server, ExitStack() as stack:
        idle = [stack.enter_context(line(server)) for _ in range(60)]
        assert [server.get("/healthz").status for _ in range(5)] == [200] * 5
        assert server.server.connections.count <= 20
        assert answer_or_reset(idle[0]) == b""


def answer_or_reset(found: socket.socket) -> bytes:
    try:
        return answer(found)
    except ConnectionResetError:
        return b""


def test_who_is_being_answered_is_not_cut_off_and_others_are_told_that_it_is_full(tmp_path: Path) -> None:
    with served(tmp_path / "home", connections=16) as server, ExitStack() as stack:
        busy = [stack.enter_context(line(server, begun_upload(f"x{number}", 20))) for number in range(16)]
        table, watch = server.server.connections, server.server.state.key_watch
        until(lambda: (len(watch.under_way), table.count) == (16, 16))  # asking would be one more
        with line(server, head("GET", "/healthz")) as refused:
            told = answer(refused)
        assert (status(told), code(told)) == (503, "server_full")
        assert b"retry-after: 1\r\n" in told
        for each in busy:
            each.sendall(b", and the rest")
        assert all(each.recv(1 << 16).startswith(b"HTTP/1.1 200") for each in busy)


def test_there_are_fewer_connections_than_files_that_may_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    for files, most in ((1024, 512), (100_000, 4096), (20, 16), (resource.RLIM_INFINITY, 4096)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
        assert most_connections(4096) == most


def test_headers_have_a_size(tmp_path: Path) -> None:
    with served(tmp_path / "home") as server:
        with line(server, b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx: " + b"x" * 200_000) as found:
            assert status(answer_or_reset(found) or b"HTTP/1.1 400 ") in (400, 431)
        assert server.get("/healthz").status == 200


# -- bodies ------------------------------------------------------------------------------------------


def test_content_that_drips_is_not_waited_for(tmp_path: Path) -> None:
    with served(tmp_path / "home", body_seconds=0.4, body_rate=1000) as server, ExitStack() as stack:
        found = stack.enter_context(line(server, head("PUT", UPLOAD + "x", content_length=MIB)))
        while not (told := drip(found)):
            continue
        told += answer_or_reset(found)
        assert (status(told), code(told)) == (408, "body_too_slow")
        assert [each.name for each in server.opened().workspace.list()] == []
        assert list((server.home / "default" / "blobs").glob("??/.*")) == []


def drip(found: socket.socket) -> bytes:
    """Send a byte; what the server said to that, if anything."""
    found.sendall(b"x")
    found.settimeout(0.02)
    try:
        return found.recv(1 << 16)
    except TimeoutError:
        return b""
    finally:
        found.settimeout(30)


def test_content_that_comes_steadily_has_all_the_time_it_needs(tmp_path: Path) -> None:
    size = 40_000
    with served(tmp_path / "home", body_seconds=1.5, body_rate=1000) as server:
        with line(server, head("PUT", UPLOAD + "x", content_length=size)) as found:
            for _ in range(20):  # longer than the time that is waited for, never slower than the least
                found.sendall(b"y" * (size // 20))
                time.sleep(0.09)
            assert found.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert server.opened().workspace.get("x").size == size


def test_uploads_that_wait_for_their_clients_keep_nobody_waiting(tmp_path: Path) -> None:
    with served(tmp_path / "home") as server, ExitStack() as stack:
        slow = [stack.enter_context(line(server, begun_upload(f"x{number}", 20))) for number in range(64)]
        until(lambda: under_way(server) == 64)
        assert server.ask("PUT", UPLOAD + "quick", raw=b"at once").status == 200
        assert server.post("/v1/handoff/store", HANDOFF).status == 200
        assert server.get("/v1/runs").status == 200
        for each in slow:
            each.sendall(b", and the rest")
        assert all(each.recv(1 << 16).startswith(b"HTTP/1.1 200") for each in slow)


# -- the share of a key ------------------------------------------------------------------------------


def test_a_key_has_so_many_requests_at_once_and_others_do_not_notice(tmp_path: Path) -> None:
    with served(tmp_path / "home", key_requests=3) as server, ExitStack() as stack:
        mine, other = (server.keys().create(name).text for name in ("mallory", "ann"))
        for number in range(3):
            stack.enter_context(line(server, begun_upload(f"x{number}", 20, mine)))
        until(lambda: under_way(server) == 3)
        refused = server.get("/v1/runs", key=mine)
        assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, "too_many_requests", "1")
        assert server.get("/v1/runs", key=other).status == 200
        stack.close()
        until(lambda: server.get("/v1/runs", key=mine).status == 200)


def test_who_needs_no_key_has_no_share(tmp_path: Path) -> None:
    with served(tmp_path / "home", key_requests=1) as server, ExitStack() as stack:
        for number in range(3):
            stack.enter_context(line(server, begun_upload(f"x{number}", 20)))
        until(lambda: under_way(server) == 3)
        assert server.get("/v1/runs").status == 200


def test_streams_do_not_count_among_the_requests_of_a_key(tmp_path: Path) -> None:
    with served(tmp_path / "home", key_requests=2, flows=FLOWS) as server, ExitStack() as stack:
        mine = server.keys().create("ann").text
        begun = {"flow": "telling", "inputs": {"path": str(tmp_path / "there")}}
        run_id = server.post("/v1/runs", begun, key=mine).json["run_id"]
        asked = head("GET", f"/v1/runs/{run_id}/events", mine, accept="text/event-stream")
        streams = [stack.enter_context(line(server, asked)) for _ in range(5)]
        assert all(each.recv(1 << 16).startswith(b"HTTP/1.1 200") for each in streams)
        assert server.get("/v1/runs", key=mine).status == 200


def started(server: Served, key: str | None, path: Path, task: str) -> Reply:
    return server.post("/v1/runs", {"flow": "telling", "task": task, "inputs": {"path": str(path)}}, key=key)


def test_a_key_has_so_many_runs_that_execute_at_once(tmp_path: Path) -> None:
    """The next one is refused before anything of it exists, and is started when one has ended."""
    with served(tmp_path / "home", key_runs=2, flows=FLOWS) as server:
        mine, other = (server.keys().create(name).text for name in ("mallory", "ann"))
        assert [started(server, mine, tmp_path / "there", name).status for name in ("a", "b")] == [202, 202]
        refused = started(server, mine, tmp_path / "there", "c")
        assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, "too_many_runs", "1")
        assert len(server.get("/v1/runs", key=mine).json["items"]) == 2
        assert started(server, other, tmp_path / "there", "d").status == 202
        (tmp_path / "there").write_text("go on")
        until(lambda: started(server, mine, tmp_path / "there", "c").status in (200, 202))


def test_without_a_key_there_are_no_limits(tmp_path: Path) -> None:
    with served(tmp_path / "home", key_runs=1, key_requests=1, key_bytes=1, flows=FLOWS) as server:
        assert [started(server, None, tmp_path / "there", name).status for name in "abc"] == [202] * 3
        assert server.ask("PUT", UPLOAD + "x", raw=b"y" * 1000).status == 200
        (tmp_path / "there").write_text("go on")


def test_a_quota_refuses_saves_and_starts_and_nothing_that_was_begun(tmp_path: Path) -> None:
    with served(tmp_path / "home", key_bytes=100_000, flows=FLOWS) as server:
        mine, other = (server.keys().create(name, roles=["write", "read"]).text for name in ("mallory", "ann"))
        stored = server.post("/v1/handoff/store", HANDOFF, key=mine)
        claim = server.post("/v1/handoff/claim", {"anchor": HANDOFF["anchor"]}, key=mine)
        going_on = started(server, mine, tmp_path / "there", "a").json["run_id"]
        assert (stored.status, claim.status) == (200, 200)
        assert server.ask("PUT", UPLOAD + "x", raw=os.urandom(90_000), key=mine).status == 200
        too_much = server.ask("PUT", UPLOAD + "y", raw=os.urandom(20_000), key=mine)
        assert (too_much.status, too_much.code) == (507, "quota")
        in_pieces = head("PUT", UPLOAD + "z", mine, transfer_encoding="chunked")
        with line(server, in_pieces + b"4e20\r\n" + os.urandom(20_000) + b"\r\n0\r\n\r\n") as found:
            assert status(found.recv(1 << 16)) == 507
        refused = {
            "blob": server.ask("PUT", f"/v1/handoff/blobs/{'0' * 64}", raw=os.urandom(20_000), key=mine),
            "artifact": server.post("/v1/workspace/artifacts", {"name": "a", "content": "x" * 20_000}, key=mine),
            "handoff": server.post("/v1/handoff/store", {**HANDOFF, "handoff_text": "x" * 20_000}, key=mine),
        }
        assert {name: (reply.status, reply.code) for name, reply in refused.items()} == dict.fromkeys(
            refused, (507, "quota")
        )
        assert server.ask("PUT", UPLOAD + "y", raw=os.urandom(20_000), key=other).status == 200
        (tmp_path / "there").write_text("go on")
        ended = server.get(f"/v1/runs/{going_on}/outcome?wait=30", key=mine)
        assert (ended.status, ended.json["status"]) == (200, "succeeded")
        assert [path.name for path in (server.home / "default" / "blobs").glob("??/.*")] == []


def test_who_has_reached_his_quota_starts_no_run_until_gc_made_room(tmp_path: Path) -> None:
    with served(tmp_path / "home", key_bytes=1000, flows=FLOWS) as server:
        mine = server.keys().create("mallory").text
        for number in range(2):
            server.ask("PUT", UPLOAD + "x", raw=bytes([number]) * 500, key=mine)
        begun = {"flow": "doubling", "inputs": {"number": 2}}
        assert server.post("/v1/runs", begun, key=mine).code == "quota"
        with server.opened() as outlast:
            outlast._executor.home.store.write(lambda tx: tx.forget_stored([outlast.workspace.get("x@1").digest]))
        server.server.state.quota._used.clear()
        assert server.post("/v1/runs?wait=30", begun, key=mine).status == 200


def test_who_has_reached_his_quota_forks_no_run(tmp_path: Path) -> None:
    with served(tmp_path / "home", key_bytes=1000, flows=FLOWS) as server:
        mine = server.keys().create("mallory", roles=["write", "approve"]).text
        run = done(server, mine)
        fork = f"/v1/runs/{run}/fork"
        assert server.post(fork, {"from_step": "double"}, key=mine).status == 200
        for number in range(2):
            server.ask("PUT", UPLOAD + "x", raw=bytes([number]) * 500, key=mine)
        assert server.post(fork, {"from_step": "double"}, key=mine).code == "quota"


# -- long looks --------------------------------------------------------------------------------------


def done(server: Served, key: str) -> str:
    """The id of a run that has ended."""
    begun = {"flow": "doubling", "inputs": {"number": 2}}
    return str(server.post("/v1/runs?wait=30", begun, key=key).json["run_id"])


def test_the_whole_store_is_verified_for_admins_and_one_run_for_everybody(tmp_path: Path) -> None:
    with served(tmp_path / "home", flows=FLOWS) as server:
        reader, admin = (server.keys().create(role, roles=[role]).text for role in ("read", "admin"))
        run_id = server.post("/v1/runs?wait=30", {"flow": "doubling", "inputs": {"number": 2}}, key=admin).json[
            "run_id"
        ]
        refused = server.get("/v1/verify", key=reader)
        assert (refused.status, refused.code) == (403, "forbidden")
        assert server.get("/v1/verify", key=admin).json["ok"] is True
        assert server.get(f"/v1/verify?run_id={run_id}", key=reader).json["ok"] is True


def test_long_looks_wait_for_each_other_and_nobody_else_for_them(tmp_path: Path) -> None:
    """Their threads are all held; whoever looks shortly, or writes, is answered."""
    with served(tmp_path / "home", flows=FLOWS, long_threads=1, long_waiting=2, long_of_a_key=2) as server:
        mine, other = (server.keys().create(name).text for name in ("mallory", "ann"))
        run_id = done(server, mine)
        verify, held = f"/v1/verify?run_id={run_id}", Held(server)
        with ExitStack() as stack:
            stack.enter_context(held)
            for _ in range(2):
                stack.enter_context(line(server, head("GET", verify, mine)))
            until(lambda: under_way(server) == 2)
            refused = server.get(verify, key=mine)
            assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, "server_busy", "1")
            assert server.get("/v1/runs", key=mine).status == 200
            assert server.post("/v1/handoff/store", HANDOFF, key=other).status == 200
        assert server.get(verify, key=other).json["ok"] is True


class Held:
    """All threads for long looks, busy until the block ends."""

    def __init__(self, server: Served) -> None:
        import threading

        self._pool, self._over = server.server.state.threads._looking, threading.Event()

    def __enter__(self) -> None:
        self._pool.submit(lambda: self._over.wait(60))

    def __exit__(self, *failed: object) -> None:
        self._over.set()


# -- ranges ------------------------------------------------------------------------------------------


def test_a_range_of_large_content_is_proven_by_its_own_chunk(tmp_path: Path) -> None:
    content = os.urandom(20 * MIB)
    with served(tmp_path / "home") as server:
        assert server.ask("PUT", UPLOAD + "x", raw=content).status == 200
        (largest,) = (path for path in (server.home / "default" / "blobs").glob("??/*") if path.stat().st_size > MIB)
        with largest.open("r+b") as file:
            file.seek(19 * MIB)
            file.write(b"damaged")
        at = "/v1/workspace/artifacts/content?ref=x"
        good = server.get(at, headers={"range": "bytes=5-9"})
        assert (good.status, good.raw) == (206, content[5:10])
        bad = server.get(at, headers={"range": f"bytes={19 * MIB}-{19 * MIB}"})
        assert (bad.status, bad.code) == (409, "integrity_broken")


# -- the log -----------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def logged(work: Callable[[RequestLog, Clock], None]) -> list[dict[str, Any]]:
    lines: list[bytes] = []
    clock = Clock()
    work(RequestLog(lines.append, clock), clock)
    return [json.loads(each) for each in lines]


def test_of_a_kind_so_many_lines_are_written_and_the_others_counted() -> None:
    def flood(log: RequestLog, clock: Clock) -> None:
        for number in range(12_331):
            log.line("info", route="/v1/runs", status=200, request_id=str(number))
        log.line("info", route="/v1/runs", status=404)
        clock.now = WINDOW_SECONDS
        log.flush()
        log.line("info", route="/v1/runs", status=200)

    found = logged(flood)
    assert len(found) == OF_A_KIND + 3
    assert found[-2] == {
        "ts": found[-2]["ts"],
        "level": "info",
        "route": "/v1/runs",
        "status": 200,
        "message": "… and 12,031 more like it in the last 10 s",
        "left_out": 12_031,
    }


def test_what_was_left_out_is_told_when_the_log_ends() -> None:
    def flood(log: RequestLog, clock: Clock) -> None:
        for _ in range(OF_A_KIND + 5):
            log.line("warning", logger="uvicorn.error", kind="Invalid", message="Invalid HTTP request received.")
        log.flush(ends=True)

    assert logged(flood)[-1]["left_out"] == 5


def test_kinds_that_nobody_counted_on_cannot_flood_it_either() -> None:
    def flood(log: RequestLog, clock: Clock) -> None:
        for number in range(20_000):
            log.line("info", route="-", status=number)
        log.flush(ends=True)

    assert len(logged(flood)) < 4000


def test_a_line_has_a_length_and_an_error_of_a_connection_no_traceback() -> None:
    def tell(log: RequestLog, clock: Clock) -> None:
        log.line("info", route="x" * 100_000)
        for kind in (OSError(24, "Too many open files"), RuntimeError("y" * 100_000)):
            for _ in range(WITH_A_TRACE + 3):
                try:
                    raise kind
                except Exception as error:
                    log.failed(error, logger="asyncio")

    found = logged(tell)
    assert max(len(str(each.get("route", ""))) for each in found) < TEXT_LENGTH + 10
    assert all("trace" not in each for each in found if "Too many open files" in each.get("error", ""))
    traced = [each for each in found if "trace" in each]
    assert len(traced) == WITH_A_TRACE
    assert max(len(json.dumps(each)) for each in found) < 20_000


def test_what_asyncio_says_is_of_a_kind_by_its_words() -> None:
    import logging

    lines: list[bytes] = []
    handler = Handler(RequestLog(lines.append, Clock()))
    for number in range(5 * OF_A_KIND):
        record = logging.LogRecord("asyncio", logging.ERROR, "", 0, "socket.accept() failed: %s", (number,), None)
        handler.emit(record)
    assert len(lines) == OF_A_KIND


def test_a_run_that_fails_is_in_the_servers_log_with_its_fields(tmp_path: Path) -> None:
    from .http_flows import failing

    with served(tmp_path / "home") as server, server.opened() as outlast:
        outcome = outlast.run(failing, task="nightly")
        assert outcome.status == "failed"
        (told,) = [each for each in server.log() if each.get("logger") == "outlast.runs"]
    assert (told["level"], told["run"], told["task"]) == ("error", outcome.run_id, "nightly")
    assert "ValueError: no luck" in told["message"]


# -- settings ----------------------------------------------------------------------------------------


def test_the_limits_of_a_key_are_settings_of_the_server() -> None:
    from outlast.doors.cli.serve import limits_of

    given = ("requests=5", "runs=7", "bytes=2G")
    assert limits_of(given) == {"key_requests": 5, "key_runs": 7, "key_bytes": 2 << 30}


@pytest.mark.parametrize("given", ["requests", "requests=", "requests=-1", "requests=five", "people=5", "bytes=1P"])
def test_a_limit_that_is_none_is_refused(given: str) -> None:
    from outlast.doors.cli.serve import limits_of

    with pytest.raises(NameInvalid):
        limits_of((given,))
