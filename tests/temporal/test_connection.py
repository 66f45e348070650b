"""How Temporal is reached, what leaves the ledger, and who shares a namespace."""

import asyncio
import base64
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from temporalio.client import Client

from outlast.adapters.temporal import TemporalSettings, TemporalWorker
from outlast.errors import EngineUnreachable, ValueRefused

from ..console.pages import opened
from . import flows
from .support import FLOWS, Home, until


def history_of(home: Home, workflow: str) -> dict[str, Any]:
    async def fetched() -> str:
        client = await Client.connect(home.address)
        return (await client.get_workflow_handle(workflow).fetch_history()).to_json()

    found: dict[str, Any] = json.loads(asyncio.run(fetched()))
    return found


def payloads_in(found: Any) -> Iterator[dict[str, Any]]:
    """Every payload of a history."""
    if isinstance(found, dict):
        if set(found) <= {"metadata", "data"} and "metadata" in found:
            yield found
        for each in found.values():
            yield from payloads_in(each)
    elif isinstance(found, list):
        for each in found:
            yield from payloads_in(each)


def test_what_is_sent_goes_through_the_codec_that_is_given(home: Home) -> None:
    with TemporalWorker(home.outlast, FLOWS, home.settings(codec="tests.temporal.codec:Turned")):
        run_id = home.start(flows.asks)
        home.answer(run_id)
        home.stands(run_id, "succeeded")
        (workflow,) = home.closed(run_id)
    found = [json.dumps(each) for each in payloads_in(history_of(home, workflow.id))]
    encoding = base64.b64encode(b"binary/turned").decode()
    assert len(found) > 5
    assert [each for each in found if encoding not in each] == []
    assert [each for each in found if run_id in str(base64.b64decode(json.loads(each)["data"]))] == []


def test_it_is_reached_by_tls_where_that_is_asked_for(home: Home, tmp_path: Path) -> None:
    certificate, key = made_certificate(tmp_path)
    with tls_before(home.address, certificate, key) as address:
        settings = TemporalSettings(
            address=address, heartbeat_seconds=2.0, tls_ca=str(certificate), tls_server_name="temporal.test"
        )
        with TemporalWorker(home.outlast, FLOWS, settings):
            run_id = home.start(flows.plain)
            home.stands(run_id, "succeeded")
        for wrong in ({}, {"tls": True}, {"tls_ca": str(certificate), "tls_server_name": "other.test"}):
            with pytest.raises(EngineUnreachable):
                TemporalWorker(home.outlast, FLOWS, TemporalSettings(address=address, **wrong)).start()  # type: ignore[arg-type]


def made_certificate(folder: Path) -> tuple[Path, Path]:
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    about = ["-subj", "/CN=temporal.test", "-addext", "subjectAltName=DNS:temporal.test", "-days", "2"]
    about += ["-addext", "basicConstraints=critical,CA:FALSE"]
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run([*words, "-keyout", key, "-out", certificate, *about], check=True, capture_output=True)
    return certificate, key


@contextmanager
def tls_before(address: str, certificate: Path, key: Path) -> Iterator[str]:
    """The address of one that speaks TLS, and plainly with the server behind it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2"])
    host, _, port = address.partition(":")

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(65536):
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(passed(reader, there_writer), passed(there_reader, writer), return_exceptions=True)

    async def lives() -> None:
        server = await asyncio.start_server(served, "127.0.0.1", 0, ssl=context)
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # clients that are not let in
        begun.set_result((server.sockets[0].getsockname()[1], asyncio.get_running_loop(), over := asyncio.Event()))
        await over.wait()
        server.close()

    begun: Future[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
    thread = threading.Thread(target=lambda: asyncio.run(lives()), daemon=True)
    thread.start()
    port_of_ours, loop, over = begun.result()
    try:
        yield f"127.0.0.1:{port_of_ours}"
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()


def test_equal_queues_of_two_homes_in_one_namespace_share_no_task_queue(home: Home, tmp_path: Path) -> None:
    other = Home(tmp_path / "other", home.address)
    other.queue = home.queue
    try:
        theirs = other.start(flows.plain, "theirs")
        with home.worker():
            with other.worker(executes=False):
                (workflow,) = until(lambda: other.workflows(theirs), "their workflow")
            home.stands(home.start(flows.plain, "ours"), "succeeded")
            kinds = {event["eventType"] for event in history_of(home, workflow.id)["events"]}
            assert kinds == {"EVENT_TYPE_WORKFLOW_EXECUTION_STARTED", "EVENT_TYPE_WORKFLOW_TASK_SCHEDULED"}
        with other.worker():
            other.stands(theirs, "succeeded")
        assert flows.lines() == ["work ours", "work theirs"]
        assert not [note for note in (*home.notes, *other.notes) if note.kind == "refused"]
    finally:
        other.close()


def test_each_side_links_to_the_pages_of_the_other(home: Home, tmp_path: Path) -> None:
    with TemporalWorker(home.outlast, FLOWS, home.settings(console="https://ours.test/")):
        run_id = home.start(flows.plain)
        home.stands(run_id, "succeeded")
        (workflow,) = home.closed(run_id)

    async def details() -> str:
        client = await Client.connect(home.address)
        return str(await (await client.get_workflow_handle(workflow.id).describe()).static_details())

    assert asyncio.run(details()) == f"[Outlast](https://ours.test/runs/{run_id})"
    waits = home.start(flows.asks)
    settings = home.settings(ui="https://theirs.test/", namespace="default")
    with opened(tmp_path / "home", temporal=settings, flows=()) as place:  # its relay tells Temporal
        (workflow,) = until(lambda: home.workflows(waits), "its workflow")
        there = f"https://theirs.test/namespaces/default/workflows/{quote(workflow.id, safe='')}"
        assert f'<a href="{there}" rel="noreferrer">' in place.visitor().get(f"/runs/{waits}").text
        assert "theirs.test" not in place.visitor().get(f"/runs/{run_id}").text
    for wrong in ({"console": "ours.test"}, {"ui": "javascript:alert(1)"}):
        with pytest.raises(ValueRefused, match="is no address of pages"):
            TemporalWorker(home.outlast, FLOWS, home.settings(**wrong))
