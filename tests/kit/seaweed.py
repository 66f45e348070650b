"""A real S3 server for tests, from the wheel that carries one: SeaweedFS, on loopback, with its data in a folder.

One is started for each process of tests, when one is first needed, and killed at its end: asked to stop, it takes half
a minute. Each test has a prefix of its own in one bucket.
"""

import atexit
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from functools import cache
from itertools import count
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("weed")
KEYS = {"AWS_ACCESS_KEY_ID": "outlast-tests", "AWS_SECRET_ACCESS_KEY": "a-secret-of-tests", "AWS_REGION": "us-east-1"}
BUCKET = "outlast-tests"
_numbers = count(1)


def free_ports(number: int) -> list[int]:
    """Ports that nobody has now: each with the one that is 10,000 above it, which the server opens too."""
    held: list[socket.socket] = []
    found: list[int] = []
    try:
        while len(found) < number:
            one = _bound(0)
            held.append(one)
            port = one.getsockname()[1]
            if port < 50_000 and (above := _bound(port + 10_000)) is not None:
                held.append(above)
                found.append(port)
    finally:
        for each in held:
            each.close()
    return found


def _bound(port: int) -> socket.socket:
    one = socket.socket()
    try:
        one.bind(("127.0.0.1", port))
    except OSError:
        one.close()
        return None  # type: ignore[return-value]
    return one


class Seaweed:
    """A server of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "data").mkdir(exist_ok=True)
        key = {"accessKey": KEYS["AWS_ACCESS_KEY_ID"], "secretKey": KEYS["AWS_SECRET_ACCESS_KEY"]}
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        users = [{"name": "tests", "credentials": [key], "actions": actions}]
        users += [{"name": "reader", "credentials": [{"accessKey": "reader", "secretKey": "r"}], "actions": ["Read"]}]
        (folder / "s3.json").write_text(json.dumps({"identities": users}))
        self.ports = free_ports(4)
        self.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.ports[3]}"

    def start(self) -> None:
        master, volume, filer, s3 = self.ports
        at = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={self.folder / 'data'}", "-metricsPort=0"]
        at += [f"-master.port={master}", "-master.telemetry=false", "-master.volumeSizeLimitMB=64"]
        at += ["-master.electionTimeout=1s", "-master.heartbeatInterval=100ms"]
        at += [f"-volume.port={volume}", "-volume.max=100", "-volume.minFreeSpace=0", f"-filer.port={filer}"]
        at += ["-s3", f"-s3.port={s3}", f"-s3.config={self.folder / 's3.json'}", "-s3.iam=false"]
        at += ["-s3.port.iceberg=0", "-s3.port.lance=0"]
        self._process = subprocess.Popen(
            [PROGRAM, "server", *at],
            stdout=subprocess.DEVNULL,
            stderr=open(self.folder / "log", "ab"),  # noqa: SIM115
            stdin=subprocess.DEVNULL,
            cwd=self.folder,
            start_new_session=True,
            preexec_fn=_die_with_us,
        )
        deadline = time.monotonic() + 90
        while not self._is_up():
            assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, f"SeaweedFS did not start: {(self.folder / 'log').read_text()[-2000:]}"
            time.sleep(0.05)

    def _is_up(self) -> bool:
        """Whether an object can be put: that takes all of its parts."""
        import obstore
        from obstore.store import S3Store

        try:
            urllib.request.urlopen(f"{self.endpoint}/healthz", timeout=5).close()
        except (OSError, urllib.error.URLError):
            return False
        try:
            store = S3Store(BUCKET, config=self.config(), client_options={"allow_http": True}, retry_config=_ONCE)
            obstore.put(store, "ready", b"ready", use_multipart=False)
        except Exception:
            return False
        return True

    def config(self) -> dict[str, str]:
        return {**{name.lower(): said for name, said in KEYS.items()}, "aws_endpoint_url": self.endpoint}

    def kill(self) -> None:
        """End it at once, with whatever it is at."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(60)

    def environment(self) -> dict[str, str]:
        """What a process needs to find it."""
        return {**KEYS, "AWS_ENDPOINT_URL": self.endpoint}

    def new_place(self) -> str:
        """A prefix that nobody has used."""
        return f"s3://{BUCKET}/home-{os.getpid()}-{next(_numbers)}"


_ONCE = {"max_retries": 0}
_libc, _PDEATHSIG = ctypes.CDLL(None), 1


def _die_with_us() -> None:
    """In the server, before it is one: it ends with the process of tests, also if that is killed."""
    _libc.prctl(_PDEATHSIG, signal.SIGKILL)


@cache
def seaweed() -> Seaweed:
    """The server of this process of tests, killed at its end."""
    folder = Path(tempfile.mkdtemp(prefix="outlast-s3-"))
    started, owner = Seaweed(folder), os.getpid()

    def end() -> None:
        if os.getpid() == owner:  # not in a child that was forked
            started.kill()
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return started
