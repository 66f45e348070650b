"""The applications of docs/embedding.md, in processes that are asked to stop while a step is under way."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.python.named_flows import find_flow

from .support import until

PAGE = (Path(__file__).parents[2] / "docs" / "embedding.md").read_text("utf-8")
FLOWS, SCRIPT, FASTAPI, DJANGO = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SLOW = """    from pathlib import Path
    from time import sleep
    Path("began").touch()
    while not Path("go").exists():
        sleep(0.01)
    return f"about {topic}"
"""
SERVE = """
import signal, sys
from wsgiref.simple_server import make_server
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
make_server("127.0.0.1", int(sys.argv[1]), application).serve_forever()
"""


class Application:
    """One of the page's, in a folder of its own; asked over HTTP, or by the home where it serves none."""

    def __init__(self, folder: Path, code: str, words: Callable[[int], list[str]], *, serves: bool = True) -> None:
        self.folder, self._words, self._serves = folder, words, serves
        slow = FLOWS.replace('    return f"about {topic}"\n', SLOW)
        assert slow != FLOWS
        (folder / "app.py").write_text(slow + code)
        (folder / ".outlast").mkdir()
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = int(one.getsockname()[1])

    def begin(self) -> None:
        path = os.pathsep.join(filter(None, [str(self.folder), os.environ.get("PYTHONPATH")]))
        environment = os.environ | {"PYTHONPATH": path}
        start = [sys.executable, *self._words(self.port)]
        self._process = subprocess.Popen(start, cwd=self.folder, env=environment, stderr=subprocess.DEVNULL)
        until(self._is_there, "an application")

    def _is_there(self) -> bool:
        with Outlast(self.folder / ".outlast") as home:
            if not home.workers() or not self._serves:
                return bool(home.workers())
        try:
            self.ask("GET", "/reports/none")
        except OSError as error:
            return hasattr(error, "code")  # it answered
        return True

    def ask(self, method: str, path: str) -> Any:
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        with urllib.request.urlopen(asked, timeout=30) as found:
            return json.load(found)

    def start(self, topic: str) -> str:
        if self._serves:
            return str(self.ask("GET" if "django" in self._words(0)[-1] else "POST", f"/reports?topic={topic}")["run"])
        with Outlast(self.folder / ".outlast") as home:
            return home.start(find_flow(f"{self.folder / 'app.py'}:report", None), topic).run_id  # type: ignore[arg-type]

    def approve(self, run_id: str) -> None:
        if self._serves:
            self.ask("GET" if "django" in self._words(0)[-1] else "POST", f"/reports/{run_id}/approve")
            return
        with Outlast(self.folder / ".outlast") as home:
            home.answer(home.interrupts(run_id)[0].id, {"approved": True})

    def run(self, run_id: str) -> Any:
        with Outlast(self.folder / ".outlast") as home:
            return home.get(run_id)

    def ask_to_stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    def exit_code(self) -> int:
        assert self._process is not None
        return self._process.wait(60)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


KINDS: dict[str, tuple[str, Callable[[int], list[str]], bool]] = {
    "script": (SCRIPT, lambda port: ["app.py", "--work"], False),
    "fastapi": (FASTAPI, lambda port: ["-m", "uvicorn", "app:app", "--port", str(port), "--log-level", "error"], True),
    "django": ("from outlast import Outlast\n" + DJANGO + SERVE, lambda port: ["app.py", str(port), "django"], True),
}


@pytest.fixture(params=KINDS)
def application(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Application]:
    code, words, serves = KINDS[request.param]
    made = Application(tmp_path, code, words, serves=serves)
    yield made
    made.kill()


def test_an_application_lets_its_steps_end_and_the_next_one_goes_on(application: Application) -> None:
    application.begin()
    run_id = application.start("kelp")
    until((application.folder / "began").exists, "the step")
    application.ask_to_stop()
    (application.folder / "go").touch()
    assert application.exit_code() in (0, 143, -signal.SIGTERM)
    stopped = application.run(run_id)
    assert (stopped.status in ("interrupted", "waiting"), stopped.holder) == (True, "")
    application.begin()
    until(lambda: application.run(run_id).status == "waiting", "a question")
    application.approve(run_id)
    until(lambda: application.run(run_id).result == "about kelp", "the end")
    drafts = [each for each in _receipts(application, run_id) if each == "draft"]
    assert drafts == ["draft"]  # it was let end, and not done again


def _receipts(application: Application, run_id: str) -> list[str]:
    with Outlast(application.folder / ".outlast") as home:
        return [receipt.step for receipt in home.receipts(run_id)]
