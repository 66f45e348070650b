"""Pictures of the console for the docs, of a real home that is made for it: `make screenshots`. It needs chromium."""

from __future__ import annotations

import shutil
import struct
import sys
import tempfile
import threading
import time
import zlib
from pathlib import Path

from playwright.sync_api import sync_playwright

from outlast import Outlast, Run, effect, flow, step
from outlast.doors.console.screens import pages
from outlast.doors.http.identity import address_of, listen
from outlast.doors.http.serve import Server
from outlast.doors.http.state import ServerSettings

IMAGES = Path(__file__).parents[1] / "docs" / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
DIFF = "--- a/report.md\n+++ b/report.md\n@@ -1,2 +1,2 @@\n # Kelp\n-It grows.\n+It grows two feet a day."


def bars(heights: tuple[int, ...] = (30, 42, 38, 55, 71, 66, 90, 104)) -> bytes:
    """A small chart as a PNG."""
    wide, high, blue, pale = 30 * len(heights), 120, b"\x3f\x83\xc4", b"\xf4\xf5\xf2"
    rows = (
        b"".join((blue if high - y <= tall and 5 < x < 25 else pale) for tall in heights for x in range(30))
        for y in range(high)
    )
    packed = zlib.compress(b"".join(b"\0" + row for row in rows))

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


@step
def find(topic: str) -> list[str]:
    time.sleep(0.12)
    return [f"{topic} grows two feet a day", f"otters keep {topic} healthy"]


@step(retries=1, backoff=0.05)
def draft(notes: list[str]) -> str:
    time.sleep(0.2)
    return "# Kelp\n\n" + "\n".join(f"- {note}" for note in notes)


@effect
def publish(text: str) -> str:
    return "https://reports.example/kelp"


@step
def measure(depth: int) -> float:
    time.sleep(0.05)
    raise ConnectionError(f"the buoy at {depth} m does not answer")


@flow(name="daily_report")
def daily_report(run: Run, topic: str) -> str:
    """Finds, drafts, asks, publishes."""
    run.phase = "drafting"
    text = draft(find(topic))
    chart = run.workspace.save(f"{topic}.png", bars(), media_type="image/png", summary=f"Growth of {topic} by week")
    shown = {"question": f"Publish the report on {topic}?", "draft": text, "change": DIFF, "chart": chart.ref}
    answer = run.pause_for("approval", payload=shown, assignee="ann")
    return publish(text) if answer["approved"] else ""


@flow(name="buoys")
def buoys(run: Run) -> float:
    """Fails at a depth."""
    find("buoys")
    return measure(40)


def fill(outlast: Outlast) -> dict[str, str]:
    """A home with something of everything; the paths of what is shown."""
    done = outlast.run(daily_report, "algae", task="report-monday").run_id
    outlast.answer(outlast.interrupts(done)[0].id, {"approved": True}, resume=True)
    waiting = outlast.run(daily_report, "kelp", task="report-tuesday").run_id
    failed = outlast.run(buoys, task="buoys")
    assert failed.status == "failed"
    saved = outlast.workspace.save("report.md", "# Kelp\n\nIt grows two feet a day.", summary="the report")
    seen = outlast.workspace.record("observation", "Divers saw fewer otters this week")
    grown = outlast.workspace.record("evidence", "Growth measured at three buoys: 2 ft a day", refs=[saved.ref])
    chosen = outlast.workspace.record("decision", "Publish the kelp report", refs=[saved.ref])
    outlast.workspace.link(grown.ref, "supports", chosen.ref)
    outlast.workspace.link(seen.ref, "contradicts", chosen.ref, note="fewer otters, less kelp")
    return {
        "needs": "/",
        "run": f"/runs/{failed.run_id}?step=2",
        "question": f"/inbox/{outlast.interrupts(waiting)[0].id}",
        "evidence": f"/workspace/why?ref={chosen.ref}",
    }


def shoot(address: str, paths: dict[str, str], folder: Path, chromium: str) -> None:
    """A picture of each page, by day; of the run by night."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        for name, path in paths.items():
            scheme = "dark" if name == "run" else "light"
            context = browser.new_context(color_scheme=scheme, viewport={"width": 1240, "height": 780})
            page = context.new_page()
            page.goto(address + path)
            page.screenshot(path=str(folder / f"console-{name}.png"), full_page=name in ("question", "evidence"))
            context.close()
        browser.close()


def main() -> int:
    """Make the home, serve it, and take the pictures."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("there is no chromium: apt-get install chromium", file=sys.stderr)
        return 1
    home = Path(tempfile.mkdtemp()) / "shop"
    with Outlast(home, actor="ann") as outlast:
        paths = fill(outlast)
    opened = listen("127.0.0.1", 0)
    ready = threading.Event()
    server = Server(ServerSettings(home=home, works=False, log=lambda line: None), opened, ready.set, pages)
    thread = threading.Thread(target=server.serve_all)
    thread.start()
    ready.wait(30)
    try:
        shoot(address_of(opened), paths, IMAGES, chromium)
    finally:
        server.should_exit = True
        thread.join()
        shutil.rmtree(home.parent, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
