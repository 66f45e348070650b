"""The console in a real browser: answers, live pages, keys, no scripts, a narrow screen, and what agents write.

It needs chromium: `apt-get install chromium`. Where there is none these tests are skipped, loudly; in CI that fails.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast

from . import flows
from .pages import PNG, Place, opened

playwright = pytest.importorskip("playwright.sync_api")

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    *("--in-process-gpu", "--disable-software-rasterizer"),  # nothing is drawn for anybody: less to compute
)
AXE = Path(__file__).with_name("axe-core-4.14.0.min.js")
AXE_DIGEST = "20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878"
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\x1b[31m\u202egnp.exe \u05d0\u05d1\u05d2"

FOREIGN = "img:not([src^='/static/']):not([src^='/content/']), iframe, object, script:not([src^='/static/'])"

if not CHROMIUM and os.environ.get("OUTLAST_BROWSER") == "required":
    raise RuntimeError("no chromium: the tests of the console in a browser cannot run, and in CI they must")
if not CHROMIUM:
    print("\n*** NO CHROMIUM: the console is not tested in a browser. Install it: apt-get install chromium ***\n")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="NO CHROMIUM: install it with `apt-get install chromium`")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield opened
        opened.close()


class Tab:
    """A page of the browser, and everything that went wrong in it."""

    def __init__(self, page: Any, place: Any) -> None:
        self.page, self.place, self.wrong = page, place, list[str]()
        page.set_default_timeout(15_000)
        page.on("console", lambda said: self.wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("dialog", lambda dialog: (self.wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))

    def go(self, path: str) -> Any:
        self.page.goto(f"http://127.0.0.1:{self.place.port}{path}", wait_until="domcontentloaded")
        return self.page


@contextmanager
def tab(browser: Any, place: Any, **how: Any) -> Iterator[Tab]:
    context = browser.new_context(**how)
    found = Tab(context.new_page(), place)
    yield found
    context.close()
    assert found.wrong == [], "the browser's console is not empty"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    home = Path(tmp_path_factory.mktemp("home")) / "home"
    with Outlast(home) as outlast:
        saved = outlast.workspace.save("report.md", f"# {HOSTILE}\n" + "x" * 1_000_000, summary=HOSTILE)
        chart = outlast.workspace.save("chart.png", PNG, media_type="image/png", summary=HOSTILE)
        hostile = {"draft": HOSTILE + "x" * 50_000, HOSTILE: [HOSTILE], "whole": saved.ref, "chart": chart.ref}
        outlast.run(flows.report, HOSTILE, hostile, task="hostile")
        outlast.schedules.add("nightly", flows.counting, cron="0 7 * * *", inputs={"upto": 2})
        outlast.run(flows.survey)
        assert outlast.run(flows.stumbling, "/nowhere").status == "failed"
        evidence = outlast.workspace.record("evidence", HOSTILE, refs=[saved.ref])
        decision = outlast.workspace.record("decision", "publish", refs=[evidence.ref])
        outlast.workspace.link(evidence.ref, "supports", decision.ref)
        for summary in ("Stopped at the header", HOSTILE):
            outlast.handoff.store(anchor="task:repair", summary=summary, handoff_text="Open a.py.", bind=False)
        outlast.tasks.open("repair")
        outlast.sessions.append("chat", "user", HOSTILE)
    with opened(home, poll_seconds=0.05) as found:
        yield found


def waiting(place: Place, topic: str) -> tuple[str, str]:
    with Outlast(place.home) as outlast:
        run = outlast.run(flows.report, topic, task=topic).run_id
        return run, outlast.interrupts(run)[0].id


def status_of(place: Place, run_id: str) -> str:
    with Outlast(place.home) as outlast:
        return outlast.get(run_id).status


def test_who_approves_in_the_inbox_sees_the_run_finish(browser: Any, place: Place) -> None:
    run, wait = waiting(place, "kelp")
    with tab(browser, place) as seen:
        page = seen.go("/")
        row = page.locator(".needs li", has=page.locator(f'a[href="/inbox/{wait}"]').first)
        row.get_by_role("button").first.click()
        page.wait_for_url("**/")
        page.get_by_text("Answered; its run goes on.").wait_for()
        seen.go(f"/runs/{run}").locator("h1 .is-succeeded").wait_for()


def test_a_double_click_answers_once(browser: Any, place: Place) -> None:
    run, wait = waiting(place, "twice")
    with tab(browser, place) as seen:
        page = seen.go(f"/inbox/{wait}")
        page.get_by_role("button", name="Approve").dblclick()
        page.get_by_text("Answered").first.wait_for()
        page.goto(f"http://127.0.0.1:{place.port}/runs/{run}")
        page.locator("h1 .is-succeeded").wait_for()


def test_of_two_people_one_answers_and_the_other_is_told_and_who_saw_another_question_answers_nothing(
    browser: Any, place: Place
) -> None:
    _, wait = waiting(place, "both")
    with tab(browser, place) as ann, tab(browser, place) as bob:
        for each in (ann, bob):
            each.go(f"/inbox/{wait}")
        ann.page.get_by_role("button", name="Decline").click()
        ann.page.get_by_role("heading", name="Answered").or_(ann.page.get_by_role("heading", name="Used")).wait_for()
        bob.page.get_by_role("button", name="Approve").click()
        bob.page.locator(".said", has_text="already").wait_for()
        _, other = waiting(place, "stale")
        page = bob.go(f"/inbox/{other}")
        page.locator("form.answer [name=shown]").evaluate("field => { field.value = '0'.repeat(64); }")
        page.get_by_role("button", name="Approve").click()
        page.get_by_text("This is not what you were shown.").wait_for()
        with Outlast(place.home) as outlast:
            assert outlast.interrupt(wait).answer == {"approved": False}
            assert outlast.interrupt(other).status == "open"
        page.get_by_role("button", name="Decline").click()
        page.get_by_text("Answered").first.wait_for()


def test_a_page_follows_a_run_also_over_a_server_that_was_killed_and_started_anew(browser: Any, tmp_path: Path) -> None:
    home, go = tmp_path / "home", tmp_path / "go"
    with Outlast(home) as outlast:
        started = outlast.start(flows.watching, str(go))
        with served(home, 0) as first, tab(browser, first) as seen:
            page = seen.go(f"/runs/{started.run_id}")
            page.locator("h1 .is-running").wait_for()
            first.kill()
            with served(home, first.port):
                go.write_text("on")
                assert started.outcome(30).status == "succeeded"
                page.locator("h1 .is-succeeded").wait_for(timeout=60_000)
                page.goto("about:blank")
            seen.wrong.clear()  # the browser says there that the line broke


class Serving:
    """A real `outlast serve`."""

    def __init__(self, home: Path, port: int) -> None:
        words = [sys.executable, "-m", "outlast", "serve", "--home", str(home), "--port", str(port)]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._process.stdout is not None
        said = self._process.stdout.readline().decode()
        self.port = int(said.partition("http://127.0.0.1:")[2].partition(";")[0])

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)


@contextmanager
def served(home: Path, port: int) -> Iterator[Serving]:
    made = Serving(home, port)
    try:
        yield made
    finally:
        made.kill()


def test_a_run_is_followed_as_it_goes(browser: Any, place: Place, tmp_path: Path) -> None:
    with Outlast(place.home) as outlast:
        started = outlast.start(flows.watching, str(tmp_path / "go"))
        with tab(browser, place) as seen:
            page = seen.go(f"/runs/{started.run_id}")
            page.locator(".facts", has_text="looking").wait_for()
            (tmp_path / "go").write_text("on")
            page.locator("h1 .is-succeeded").wait_for()
            page.locator(".facts", has_text="found it").wait_for()
        assert started.outcome(30).status == "succeeded"


def test_ten_thousand_steps_are_shown_a_window_at_a_time(browser: Any, place: Place) -> None:
    with Outlast(place.home) as outlast:
        run = outlast.run(flows.counting, 10_000, task="long").run_id
    with tab(browser, place) as seen:
        page = seen.go(f"/runs/{run}")
        assert page.locator(".fall li").count() == 100
        page.get_by_role("link", name="last", exact=True).click()
        page.locator(".fall .of-run.is-succeeded").wait_for()
        assert page.locator(".fall li").count() == 100
        page.locator(".fall .of-step a").last.click()
        page.locator("#receipt h3", has_text="Result").wait_for()


def test_everything_is_reached_by_the_keyboard(browser: Any, place: Place) -> None:
    run, wait = waiting(place, "keys")
    with tab(browser, place) as seen:
        page = seen.go("/runs")
        page.keyboard.press("/")
        page.keyboard.type("keys")
        page.keyboard.press("Enter")
        page.wait_for_url("**text=keys**")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/runs/{run}")
        page.keyboard.press("g")
        page.wait_for_url("**/")
        seen.go(f"/inbox/{wait}")
        page.keyboard.press("a")
        page.keyboard.press("Enter")
        page.get_by_text("Answered; its run goes on.").wait_for()
        page.keyboard.press("?")
        page.wait_for_url("**/help")


def test_without_scripts_one_can_read_and_answer(browser: Any, place: Place) -> None:
    run, wait = waiting(place, "scriptless")
    with tab(browser, place, java_script_enabled=False) as seen:
        page = seen.go(f"/runs/{run}")
        page.get_by_text("What a resume would do").wait_for()
        page.locator(f'a[href="/inbox/{wait}"]').first.click()
        page.get_by_role("button", name="Decline").click()
        page.get_by_text("Answered; its run goes on.").wait_for()


def screens(place: Place) -> list[str]:
    with Outlast(place.home) as outlast:
        failed, waits = outlast.runs(status="failed")[0].id, outlast.interrupts()
        ref = next(each.ref for each in outlast.workspace.records() if each.kind == "decision")
    some = [f"/inbox/{wait.id}" for wait in waits[:2]]
    runs = ["/runs", f"/runs/{failed}", f"/runs/{waits[0].run_id}", f"/runs/{failed}/choose?do=rewind&step=stumble"]
    handed = ["/handoffs", "/handoffs?of=runs", "/handoffs?look=yes", "/handoff?anchor=task%3Arepair"]
    kept = ["/workspace", "/workspace?kind=artifacts", f"/workspace/why?ref={ref}", "/workspace/artifact?ref=report.md"]
    rest = [
        "/tasks",
        "/tasks/repair",
        "/sessions",
        "/sessions/chat",
        "/queues",
        "/schedules",
        "/keys",
        "/system",
        "/acts",
        "/help",
        "/sign-in",
    ]
    return ["/", *some, *runs, *handed, *kept, "/workspace/recall?goal=publish", *rest]


@pytest.mark.parametrize("width", [1280, 1100, 1081, 800, 360])
def test_the_names_of_the_screens_stand_in_one_line(browser: Any, place: Place, width: int) -> None:
    with tab(browser, place, viewport={"width": width, "height": 700}) as found:
        page = found.go("/keys")
        tops = page.evaluate("[...document.querySelectorAll('nav a')].map(each => each.offsetTop)")
        assert len(tops) == 11
        assert len(set(tops)) == 1
        seen = page.locator("nav a[aria-current]").bounding_box()
        assert seen["x"] + seen["width"] <= width
        if width > 1080:  # none is hidden
            assert page.evaluate("(nav => nav.scrollWidth <= nav.clientWidth)(document.querySelector('nav'))")


@pytest.mark.parametrize("width", [1280, 1271, 1270, 1100, 360])
def test_so_they_do_for_who_signed_in_by_a_long_name(browser: Any, tmp_path: Path, width: int) -> None:
    with Outlast(tmp_path / "home"):
        pass
    with opened(tmp_path / "home", require_key=True) as place:
        key = place.key("a-rather-long-name@department.example.org", "admin")
        with tab(browser, place, viewport={"width": width, "height": 700}) as found:
            page = found.go("/sign-in")
            page.fill("input[name=key]", key)
            page.click("main button")
            page.wait_for_selector("nav a[aria-current]")
            tops = page.evaluate("[...document.querySelectorAll('nav a')].map(each => each.offsetTop)")
            assert len(set(tops)) == 1
            if width > 800:
                assert page.evaluate("(nav => nav.scrollWidth <= nav.clientWidth)(document.querySelector('nav'))")


def test_no_screen_is_too_wide_for_a_phone_or_runs_what_agents_wrote(browser: Any, place: Place) -> None:
    with tab(browser, place, viewport={"width": 360, "height": 740}) as seen:
        for path in screens(place):
            page = seen.go(path)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            assert page.locator(FOREIGN).count() == 0, path


def test_no_screen_keeps_anybody_out(browser: Any, place: Place) -> None:
    """axe: contrast, names, order, roles; in the dark the contrast again."""
    assert hashlib.sha256(AXE.read_bytes()).hexdigest() == AXE_DIGEST
    with tab(browser, place, color_scheme="light", bypass_csp=True) as seen:
        for path in screens(place):
            page = seen.go(path)
            page.add_script_tag(path=str(AXE))
            assert kept_out(page) == [], path
            page.emulate_media(color_scheme="dark")
            assert kept_out(page, "color-contrast") == [], f"{path} in the dark"
            page.emulate_media(color_scheme="light")


def kept_out(page: Any, *rules: str) -> list[tuple[str, str]]:
    """What axe finds wrong, by these rules or by all: which rule, and the first place."""
    asked = {"resultTypes": ["violations"]} | ({"runOnly": list(rules)} if rules else {})
    found = page.evaluate("asked => axe.run(document, asked).then((all) => all.violations)", asked)
    return [(each["id"], each["nodes"][0]["html"][:200]) for each in found]
