"""The console without a browser: what each page says, who may see and do what, and what a page of others cannot do."""

import hashlib
import html
import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest

from outlast import Outlast, Settings
from outlast.doors.console import needs
from outlast.doors.console.screens import SCREENS
from outlast.python.named_flows import find_flow
from outlast.testing.crashes import in_child
from outlast.worker.notify import Notifier
from outlast.worker.targets import Target, Targets, answer_token

from . import flows
from .pages import PNG, Place, Visitor, opened, until

STATIC = Path(__file__).parents[2] / "src/outlast/doors/console/static"
VENDORED = {  # as the npm registry has them: htmx.org 2.0.11 and htmx-ext-sse 2.2.4, both 0BSD
    "htmx-2.0.11.min.js": "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
    "htmx-sse-2.2.4.min.js": "98a46496de0c3605fbffdce9167ba427bdd9553184f83f149c261891a92c0136",
}
DEPLOY = """
flow: deploy
steps:
  - id: build
    run: printf 'one\\ntwo\\n' > site.txt
    writes: [site.txt]
  - id: write
    run: |
      printf 'one\\nTWO\\nkey = AKIA%s\\n' IOSFODNN7EXAMPLE > site.txt
      kill -9 $PPID
      exit 3
    writes: [site.txt]
    on_partial: ask
"""
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\x1b[31m\u202egnp.exe"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    home = Path(tmp_path_factory.mktemp("home")) / "home"
    with Outlast(home) as outlast:
        _fill(outlast)
    with opened(home) as found:
        yield found


def _fill(outlast: Outlast) -> None:
    outlast.run(flows.report, "kelp", task="report-kelp")
    outlast.run(flows.survey)
    assert outlast.run(flows.stumbling, "/nowhere").status == "failed"
    outlast.with_options(tags=["nightly"]).run(flows.counting, 3)
    saved = outlast.workspace.save("report.md", "# Kelp", summary="the report")
    evidence = outlast.workspace.record("evidence", "it grows", refs=[saved.ref])
    decision = outlast.workspace.record("decision", "publish", refs=[evidence.ref])
    outlast.workspace.link(evidence.ref, "supports", decision.ref)
    for summary in ("Stopped at the header", "Stopped at the quotes"):
        outlast.handoff.store(anchor="task:repair", summary=summary, handoff_text="Open a.py.", bind=False)
    outlast.tasks.open("repair")
    outlast.sessions.append("chat", "user", "hello")


@pytest.fixture
def visitor(place: Place) -> Visitor:
    return place.visitor()


def outlast_of(place: Place) -> Outlast:
    return Outlast(place.home)


def paths(place: Place) -> dict[str, str]:
    """Every screen's path, about something that is there."""
    with outlast_of(place) as outlast:
        run, wait = outlast.runs(flow="stumbling")[0].id, outlast.interrupts()[0].id
        record = next(each.ref for each in outlast.workspace.records() if each.kind == "decision")
    known = {"run_id": run, "interrupt_id": wait, "task_id:path": "repair", "session_id:path": "chat"}
    query = {
        "/handoff": "?anchor=task%3Arepair",
        "/workspace/why": f"?ref={record}",
        "/workspace/recall": "?goal=publish",
        "/workspace/artifact": "?ref=report.md",
        "/runs/{run_id}/choose": "?do=rewind&step=stumble",
        "/system": "?verify=yes",
    }
    made = {}
    for screen in SCREENS:
        path = re.sub(r"\{([^}]+)\}", lambda found: known[found[1]], screen.path)
        made[screen.path] = path + query.get(screen.path, "")
    return made


def test_every_screen_is_shown_and_says_the_same_as_a_command(place: Place, visitor: Visitor) -> None:
    for screen, path in paths(place).items():
        shown = visitor.get(path)
        assert shown.status == 200, (path, shown.text)
        assert "The same as a command: <code>outlast" in shown.text, screen
        assert "{" not in shown.text.partition("The same as a command")[2].partition("</code>")[0], screen
    assert not [line for line in place.lines if b'"level":"error"' in line and b"outlast.runs" not in line]


def test_every_link_to_json_leads_to_it(place: Place, visitor: Visitor) -> None:
    for path in paths(place).values():
        found = re.search(r'<a href="(/(?:v1/|openapi)[^"]*)">JSON</a>', visitor.get(path).text)
        if "/workspace/recall" in path:  # which is asked by a POST
            continue
        assert found, path
        answer = visitor.get(html.unescape(found[1]))
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json"), found[1]


def test_no_page_has_a_script_or_a_style_of_its_own(place: Place, visitor: Visitor) -> None:
    for path in paths(place).values():
        shown = visitor.get(path)
        policy = shown.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert re.findall(r"<script(?![^>]* src=\"/static/)", shown.text) == []
        assert re.findall(r"\son\w+=|<style|\sstyle=|javascript:", shown.text) == [], path


def test_the_first_page_is_small_on_the_wire(visitor: Visitor) -> None:
    size = len(visitor.get("/").text)
    for name in re.findall(r'(?:src|href)="(/static/[^"]+)"', visitor.get("/").text):
        connection = visitor.ask("HEAD", name, **{"accept-encoding": "gzip"})
        size += int(connection.headers["content-length"])
    assert size < 60_000


def test_the_vendored_files_are_those_of_their_makers() -> None:
    found = {name: hashlib.sha256((STATIC / name).read_bytes()).hexdigest() for name in VENDORED}
    assert found == VENDORED


def test_what_agents_write_is_text(tmp_path: Path) -> None:
    with Outlast(tmp_path / "home") as outlast:
        outlast.run(flows.report, HOSTILE, {"draft": HOSTILE, HOSTILE: {"deep": [HOSTILE]}}, task=HOSTILE[:20])
        wait, run = outlast.interrupts()[0].id, outlast.runs()[0].id
        outlast.workspace.record("note", HOSTILE)
        outlast.sessions.append("chat", "user", {"said": HOSTILE})
        outlast.handoff.store(anchor="a<b>", summary=HOSTILE, handoff_text=f"# {HOSTILE}\n`{HOSTILE}`", bind=False)
    with opened(tmp_path / "home") as place:
        for path in (
            "/",
            "/runs",
            f"/runs/{run}",
            f"/inbox/{wait}",
            "/workspace",
            "/sessions/chat",
            "/handoffs",
            "/handoff?anchor=a%3Cb%3E",
        ):
            text = place.visitor().get(path).text
            assert text.count("<img") == text.count('<img src="/static/icon.svg'), path
            assert "<script>" not in text, path
            assert not set(text) & {"\x1b", "\u202e"}, path


def test_an_answer_is_taken_and_the_run_goes_on(place: Place, visitor: Visitor) -> None:
    with outlast_of(place) as outlast:
        run = outlast.run(flows.report, "otters").run_id
        wait = outlast.interrupts(run)[0].id
        page = visitor.get(f"/inbox/{wait}")
        form = {name: page.hidden(name) for name in ("token", "shown", "operation")} | {"do": "approve", "why": "fine"}
        after = visitor.follow(visitor.post(f"/inbox/{wait}", form))
        assert "Answered; its run goes on." in after.text
        again = visitor.follow(visitor.post(f"/inbox/{wait}", form))  # the same form, sent twice
        assert "Answered; its run goes on." in again.text or "run_finished" in again.text
        assert outlast.wait(run, timeout=30).result == "published otters OTTERS"
        assert outlast.interrupt(wait).answer == {"approved": True, "comment": "fine"}


def test_of_two_people_the_second_is_told_who_was_first(place: Place) -> None:
    ann, bob = place.visitor(), place.visitor()
    with outlast_of(place) as outlast:
        wait = outlast.interrupts(outlast.run(flows.report, "urchins").run_id)[0].id
    forms = []
    for each in (ann, bob):
        page = each.get(f"/inbox/{wait}")
        forms.append({name: page.hidden(name) for name in ("token", "shown", "operation")})
    ann.post(f"/inbox/{wait}", forms[0] | {"do": "decline", "why": "no"})
    after = bob.follow(bob.post(f"/inbox/{wait}", forms[1] | {"do": "approve"}))
    assert "already" in after.text
    with outlast_of(place) as outlast:
        assert outlast.interrupt(wait).answer["approved"] is False


def test_an_answer_to_what_was_not_shown_is_refused(place: Place, visitor: Visitor) -> None:
    with outlast_of(place) as outlast:
        wait = outlast.interrupts(outlast.run(flows.report, "crabs").run_id)[0].id
    page = visitor.get(f"/inbox/{wait}")
    form = {"token": page.hidden("token"), "operation": "x", "do": "approve", "shown": "0" * 64}
    after = visitor.follow(visitor.post(f"/inbox/{wait}", form))
    assert "This is not what you were shown." in after.text
    assert "Publish crabs?" in after.text  # with what is asked now, and a form to answer it
    with outlast_of(place) as outlast:
        assert outlast.interrupt(wait).status == "open"
    form = {name: after.hidden(name) for name in ("token", "shown", "operation")} | {"do": "decline"}
    visitor.post(f"/inbox/{wait}", form)
    with outlast_of(place) as outlast:
        assert outlast.interrupt(wait).status != "open"


def test_a_question_that_is_void_says_why_and_takes_no_answer(place: Place, visitor: Visitor) -> None:
    with outlast_of(place) as outlast:
        wait = outlast.interrupts(outlast.run(flows.report, "eels").run_id)[0].id
        form = {name: visitor.get(f"/inbox/{wait}").hidden(name) for name in ("token", "shown", "operation")}
        outlast.cancel(wait, "the draft was changed")
        page = visitor.get(f"/inbox/{wait}")
        assert "This question is void." in page.text
        assert "the draft was changed" in page.text
        assert 'value="approve"' not in page.text
        visitor.post(f"/inbox/{wait}", form | {"do": "approve"})
        assert outlast.interrupt(wait).status == "cancelled"


def test_a_question_whose_deadline_has_passed_says_what_counts_and_has_no_buttons(tmp_path: Path) -> None:
    with Outlast(tmp_path / "home") as outlast:
        wait = outlast.run(flows.hurried).interrupts[0].id
        while not outlast.interrupt(wait).is_overdue:
            pass
    with opened(tmp_path / "home") as place:
        page = place.visitor().get(f"/inbox/{wait}").text
        assert "Its deadline has passed." in page
        assert "{&#34;approved&#34;: false} counts instead" in page
        assert 'value="approve"' not in page
        assert 'value="approve"' not in place.visitor().get("/").text


def test_pictures_are_shown_and_nothing_else_that_calls_itself_one(place: Place, visitor: Visitor) -> None:
    with outlast_of(place) as outlast:
        saved = {
            name: outlast.workspace.save(name, content, media_type=kind)
            for name, content, kind in (
                ("chart.png", PNG, "image/png"),
                ("fake.png", b"<script>alert(1)</script>", "image/png"),
                ("drawing.svg", b"<svg onload='alert(1)'/>", "image/svg+xml"),
                ("notes.txt", b"plain <b>words</b>", "text/plain"),
            )
        }
        shown = {name.partition(".")[0]: one.ref for name, one in saved.items()}
        wait = outlast.interrupts(outlast.run(flows.report, "charts", shown).run_id)[0].id
    text = visitor.get(f"/inbox/{wait}").text
    pictures = re.findall(r'<img class="picture-of" src="([^"]+)"', text)
    assert [unquote(html.unescape(each)).partition("ref=")[2] for each in pictures] == [saved["chart.png"].ref]
    assert "plain &lt;b&gt;words" in text
    got = visitor.get(html.unescape(pictures[0]))
    assert (got.headers["content-type"], got.status) == ("image/png", 200)
    assert got.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in got.headers["content-security-policy"]
    assert '<img class="picture-of"' in visitor.get(f"/workspace/artifact?ref={saved['chart.png'].ref}").text
    assert '<img class="picture-of"' not in visitor.get(f"/workspace/artifact?ref={saved['drawing.svg'].ref}").text


def test_what_an_unfinished_attempt_left_is_shown_with_its_difference(tmp_path: Path) -> None:
    (tmp_path / "deploy.yaml").write_text(DEPLOY)
    words = [sys.executable, "-m", "outlast", "run", "deploy.yaml", "--home", str(tmp_path / ".outlast")]
    for _ in range(2):
        subprocess.run(words, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    with Outlast(tmp_path / ".outlast") as outlast:
        run = outlast.runs()[0].id
        wait = next(each.id for each in outlast.interrupts(run) if each.type == "partial")
    with opened(tmp_path / ".outlast", flows=(), looks_here=True) as place:
        for path in (f"/runs/{run}", f"/inbox/{wait}", f"/runs/{run}/choose?do=resume"):
            text = place.visitor().get(path).text
            assert '<span class="removed">-two</span>' in text, path
            assert '<span class="added">+TWO</span>' in text, path
            assert "AKIAIO" not in text, path
        assert "put back what was there" in text


def test_a_handoff_that_a_run_left_has_a_page(place: Place, visitor: Visitor) -> None:
    text = visitor.get("/handoffs").text
    link = re.search(r'href="(/handoff\?anchor=task%3Areport-kelp[^"]*)"', text)
    assert link
    page = visitor.get(html.unescape(link[1]))
    assert page.status == 200
    assert "made from what its run left" in page.text


def test_a_form_from_a_schema_gives_the_answer_that_the_schema_wants(place: Place, visitor: Visitor) -> None:
    with outlast_of(place) as outlast:
        run = outlast.with_options(operation_id="one more").run(flows.survey, task="second").run_id
        wait = outlast.interrupts(run)[0].id
        page = visitor.get(f"/inbox/{wait}")
        form = {name: page.hidden(name) for name in ("token", "shown", "operation")} | {"do": "answer"}
        wrong = visitor.follow(visitor.post(f"/inbox/{wait}", form | {"answer.rooms": "many", "answer.size": "small"}))
        assert "JSON" in wrong.text
        assert outlast.interrupt(wait).status == "open"
        visitor.post(f"/inbox/{wait}", form | {"answer.rooms": "3", "answer.size": "large", "answer.note": ""})
        assert outlast.interrupt(wait).answer == {"rooms": 3, "size": "large", "urgent": False}


@pytest.mark.parametrize(
    ("headers", "change"),
    [
        ({"origin": "https://evil.example"}, {}),
        ({"origin": ""}, {}),
        ({"sec-fetch-site": "cross-site"}, {}),
        ({}, {"token": "0" * 40}),
        ({}, {"token": ""}),
        ({"host": "evil.example"}, {}),
        ({"content-type": "text/plain"}, {}),
    ],
    ids=["another origin", "no origin", "cross-site", "another token", "no token", "rebinding", "no form"],
)
def test_a_post_that_no_page_of_ours_sent_does_nothing(
    place: Place, visitor: Visitor, headers: dict[str, str], change: dict[str, str]
) -> None:
    with outlast_of(place) as outlast:
        wait = outlast.interrupts(outlast.run(flows.report, "gulls").run_id)[0].id
    form: dict[str, Any] = {"token": visitor.get(f"/inbox/{wait}").hidden("token"), "do": "approve"} | change
    assert visitor.post(f"/inbox/{wait}", form, **headers).status in (400, 403, 415)
    with outlast_of(place) as outlast:
        assert outlast.interrupt(wait).status == "open"


def test_under_a_name_that_is_not_its_own_it_shows_and_does_nothing(place: Place, visitor: Visitor) -> None:
    """A name of somebody else's that leads here: his pages are then of the same origin."""
    with outlast_of(place) as outlast:
        wait = outlast.interrupts(outlast.run(flows.report, "terns").run_id)[0].id
    form = {name: visitor.get(f"/inbox/{wait}").hidden(name) for name in ("token", "shown")} | {"do": "approve"}
    named = {"host": f"evil.example:{place.port}", "origin": f"http://evil.example:{place.port}"}
    for path in ("/", f"/inbox/{wait}", "/live", "/v1/runs", "/static/console.js"):
        got = visitor.get(path, host=named["host"])
        assert (got.status, "terns" in got.text) == (403, False), path
    assert visitor.post(f"/inbox/{wait}", form, **named).status == 403
    with outlast_of(place) as outlast:
        assert outlast.interrupt(wait).status == "open"


@pytest.mark.parametrize("back", ["https://evil.example/", "//evil.example/"])
def test_no_form_leads_to_another_place(place: Place, visitor: Visitor, back: str) -> None:
    with outlast_of(place) as outlast:
        wait = next(each.id for each in outlast.interrupts() if each.type == "survey")
    page = visitor.get(f"/inbox/{wait}")
    went = visitor.post("/inbox/nosuchwait00", {"token": page.hidden("token"), "back": back, "do": "answer"})
    assert (went.status, went.headers["location"]) == (303, "/")


def test_a_rewind_shows_first_what_runs_again(place: Place, visitor: Visitor) -> None:
    with outlast_of(place) as outlast:
        failed = outlast.run(flows.stumbling, str(place.home / "made.txt"))
        run, _ = failed.run_id, failed.status
        shown = visitor.get(f"/runs/{run}/choose?do=rewind&step=stumble")
        assert "What would happen" in shown.text
        assert "stumble" in shown.text
        (place.home / "made.txt").write_text("made")
        form = {name: shown.hidden(name) for name in ("token", "operation", "step")} | {"do": "rewind", "go": "yes"}
        after = visitor.follow(visitor.post(f"/runs/{run}", form))
        assert "it goes on" in after.text
        assert outlast.wait(run, timeout=30).result == "made"


SHOWN_FIRST = {
    "resume": "What would happen",
    "retry": "What would happen",
    "skip": "What would happen",
    "fork": "does the rest anew when it is resumed. This run stays as it is.",
    "abort": "Effects that were done stay done.",
}


@pytest.mark.parametrize(
    ("do", "more", "said", "becomes"),
    [
        ("resume", {}, "It goes on.", "succeeded"),
        ("retry", {"go": "yes"}, "Noted; it goes on.", "succeeded"),
        ("skip", {"go": "yes", "why": "nobody needs it", "result": '"none"'}, "Noted; it goes on.", "succeeded"),
        ("skip", {"why": "nobody needs it", "result": '"none"'}, "Noted; the next resume does it.", "failed"),
        ("fork", {"effects": "reuse"}, "This is the fork; it begins when it is resumed.", "failed"),
        ("abort", {"why": "enough"}, "It was given up.", "aborted"),
    ],
)
def test_each_button_shows_first_what_it_does_and_then_does_it_once(
    place: Place, visitor: Visitor, tmp_path: Path, do: str, more: dict[str, str], said: str, becomes: str
) -> None:
    made = tmp_path / "made.txt"
    with outlast_of(place) as outlast:
        run = outlast.run(flows.stumbling, str(made), task=str(tmp_path)).run_id
        assert outlast.get(run).status == "failed"
        made.write_text("made")
        page = visitor.get(f"/runs/{run}")
        assert f"/runs/{run}/choose?do={do}" in page.text.replace("&amp;", "&")
        shown = visitor.get(f"/runs/{run}/choose?do={do}&step=stumble")
        assert SHOWN_FIRST[do] in shown.text
        step = {} if do in ("resume", "abort") else {"step": "stumble"}
        form = {name: shown.hidden(name) for name in ("token", "operation")} | step | {"do": do} | more
        answer = visitor.post(f"/runs/{run}", form)
        assert said in visitor.follow(answer).text
        visitor.post(f"/runs/{run}", form)  # the same form again
        assert outlast.wait(run, timeout=30).status == becomes
        if do == "fork":
            assert (
                len(
                    [
                        each
                        for each in outlast.runs(flow="stumbling")
                        if "~fork" in each.task and str(tmp_path) in each.task
                    ]
                )
                == 1
            )


def test_a_run_that_goes_on_is_paused(place: Place, visitor: Visitor, tmp_path: Path) -> None:
    with outlast_of(place) as outlast:
        started = outlast.start(flows.striding, str(tmp_path / "go"))
        shown = visitor.get(f"/runs/{started.run_id}/choose?do=pause")
        form = {"token": shown.hidden("token"), "do": "pause"}
        assert "asked to stop" in visitor.follow(visitor.post(f"/runs/{started.run_id}", form)).text
        until(lambda: any(event.name == "run.pausing" for event in outlast.events(started.run_id)))
        (tmp_path / "go").write_text("on")
        assert started.outcome(30).status == "interrupted"


def test_many_runs_are_resumed_at_once_and_those_that_cannot_are_named(
    place: Place, visitor: Visitor, tmp_path: Path
) -> None:
    with outlast_of(place) as outlast:
        paths = [tmp_path / name for name in ("one", "two")]
        chosen = [outlast.run(flows.stumbling, str(path), task=path.name).run_id for path in paths]
        assert [outlast.get(run).status for run in chosen] == ["failed", "failed"]
        for path in paths:
            path.write_text("made")
        token = visitor.get("/runs").hidden("token")
        form = {"token": token, "run": [*chosen, "nope"], "do": "resume", "query": ""}
        told = visitor.follow(visitor.post("/runs", form)).text
        assert "2 asked to go on." in told
        assert "nope" in told
        assert [outlast.wait(run, timeout=30).status for run in chosen] == ["succeeded", "succeeded"]


def test_many_runs_are_given_up_at_once(place: Place, visitor: Visitor) -> None:
    with outlast_of(place) as outlast:
        chosen = [outlast.run(flows.report, topic).run_id for topic in ("one", "two")]
        token = visitor.get("/runs").hidden("token")
        visitor.post("/runs", {"token": token, "run": chosen, "do": "abort", "why": "no more", "query": ""})
        assert [outlast.get(run).status for run in chosen] == ["aborted", "aborted"]


def test_filters_stand_in_the_address(place: Place, visitor: Visitor) -> None:
    assert "counting" in visitor.get("/runs?tag=nightly").text
    assert "stumbling" not in visitor.get("/runs?tag=nightly").text
    assert "No run is all of that" in visitor.get("/runs?text=nothing-like-it").text
    assert "give a datetime" in visitor.get("/runs?since=soon").text


def test_a_long_run_is_shown_a_window_at_a_time(place: Place, visitor: Visitor) -> None:
    with outlast_of(place) as outlast:
        run = outlast.run(flows.counting, 250).run_id
    first, last = visitor.get(f"/runs/{run}"), visitor.get(f"/runs/{run}?from=end")
    assert first.text.count("<li class=") == last.text.count("<li class=") == 100
    assert "run</span> succeeded" in last.text
    assert "run</span> succeeded" not in first.text
    with outlast_of(place) as outlast:
        receipt = outlast.receipts(run)[200]
    chosen = visitor.get(f"/runs/{run}?from=150&step={receipt.seq}").text
    assert f'{receipt.label} <span class="status is-succeeded">' in chosen
    assert f"<span>entry {receipt.seq}</span>" in chosen
    assert "<h3>Result</h3>" in chosen


def test_files_of_an_error_are_named_from_the_folder_of_the_flow_on(place: Place, visitor: Visitor) -> None:
    with outlast_of(place) as outlast:
        failed = outlast.run(flows.stumbling, "/nowhere/else")
    assert failed.status == "failed"
    shown = html.unescape(visitor.get(f"/runs/{failed.run_id}").text)
    assert '<h3>Your code</h3><pre tabindex="0">  File "flows.py", line' in shown
    assert 'File "<pathlib.py>", line' in shown
    assert str(Path(flows.__file__).parent) not in shown


# -- keys ------------------------------------------------------------------------------------------------


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[Place]:
    with Outlast(tmp_path / "home") as outlast:
        outlast.run(flows.report, "kelp")
    with opened(tmp_path / "home", require_key=True) as found:
        yield found


def wait_of(place: Place) -> str:
    with outlast_of(place) as outlast:
        return outlast.interrupts()[0].id


def test_without_a_key_there_is_only_the_way_in(keyed: Place) -> None:
    visitor = keyed.visitor()
    for path in paths_of(keyed):
        assert visitor.get(path).headers["location"].startswith("/sign-in?back=")
    assert visitor.get("/v1/runs").status == 401
    assert visitor.sign_in("ol_nonsense").status == 401


def paths_of(place: Place) -> list[str]:
    return ["/", "/runs", f"/inbox/{wait_of(place)}", "/live", "/content/artifact?ref=x"]


def test_who_signs_in_is_who_answers_and_the_cookie_is_no_key(keyed: Place) -> None:
    visitor, key = keyed.visitor(), keyed.key("ann", "approve")
    signed = visitor.sign_in(key)
    cookie = next(each for each in signed.cookies if each.startswith("outlast_session="))
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert key.rpartition("_")[2] not in cookie
    wait = wait_of(keyed)
    page = visitor.get(f"/inbox/{wait}")
    form = {name: page.hidden(name) for name in ("token", "shown", "operation")} | {"do": "approve"}
    assert "its run goes on" in visitor.follow(visitor.post(f"/inbox/{wait}", form)).text  # without a second role
    with outlast_of(keyed) as outlast:
        assert outlast.interrupt(wait).answered_by == "ann"
        assert outlast.wait(outlast.runs()[0].id, timeout=30).status == "succeeded"


def test_who_may_only_read_sees_no_buttons_and_can_do_nothing(keyed: Place) -> None:
    visitor, wait = keyed.visitor(), wait_of(keyed)
    visitor.sign_in(keyed.key("bob", "read"))
    shown = visitor.get(f"/inbox/{wait}")
    assert 'value="approve"' not in shown.text
    assert 'type="checkbox"' not in visitor.get("/runs").text
    assert 'value="add"' not in visitor.get("/schedules").text
    token = visitor.get("/runs").hidden("token")
    visitor.post(f"/inbox/{wait}", {"token": token, "do": "approve"})
    with outlast_of(keyed) as outlast:
        assert outlast.interrupt(wait).status == "open"
    assert visitor.get("/keys").status == 403


def test_the_keys_of_the_tenant_are_for_admins(keyed: Place) -> None:
    visitor = keyed.visitor()
    visitor.sign_in(keyed.key("root", "admin"))
    keyed.key("stranger", "read", tenant="elsewhere")
    text = visitor.get("/keys").text
    assert "root" in text
    assert "stranger" not in text


def test_an_admin_makes_a_key_that_is_shown_once_and_ends_it(keyed: Place) -> None:
    root = keyed.visitor()
    root.sign_in(keyed.key("root", "admin"))
    token = root.get("/keys").hidden("token")
    made = root.post(
        "/keys", {"token": token, "do": "create", "actor": "ann", "role": ["read", "approve"], "ends": "9d"}
    )
    text = re.search(r'data-copy="(ol_[^"]+)"', made.text)
    assert text
    assert text[1] not in root.get("/keys").text
    ann = keyed.visitor()
    assert ann.sign_in(html.unescape(text[1])).status == 303
    assert ann.get("/runs").status == 200
    assert ann.post("/keys", {"token": ann.get("/runs").hidden("token"), "do": "create", "actor": "eve"}).status == 403
    (row,) = [key for key in keyed.server.state.keys.list() if key.actor == "ann"]
    assert (set(row.roles), row.expires_at is not None) == ({"read", "approve"}, True)
    root.post("/keys", {"token": token, "do": "revoke", "key": row.id})
    assert ann.get("/runs").status == 303


def test_nobody_makes_a_key_that_may_more_than_his_own_or_ends_one_of_another_tenant(keyed: Place) -> None:
    bound, other = keyed.visitor(), keyed.key("other", "read", tenant="elsewhere").split("_")[1]
    bound.sign_in(keyed.key("bound", "admin", scopes=["web"]))
    writer = keyed.visitor()
    writer.sign_in(keyed.key("writer", "write", "approve"))
    for each in (bound, writer):
        form = {"token": each.get("/runs").hidden("token"), "do": "create", "actor": "eve", "role": ["admin"]}
        assert each.post("/keys", form).status == 403
    assert "eve" not in {key.actor for key in keyed.server.state.keys.list()}
    root = keyed.visitor()
    root.sign_in(keyed.key("root", "admin"))
    root.post("/keys", {"token": root.get("/keys").hidden("token"), "do": "revoke", "key": other})
    assert next(key for key in keyed.server.state.keys.list() if key.id == other).revoked_at is None


def test_schedules_are_added_paused_triggered_and_removed(place: Place, visitor: Visitor) -> None:
    def do(what: str, **more: str) -> str:
        form = {name: visitor.get("/schedules").hidden(name) for name in ("token", "operation")}
        return visitor.follow(visitor.post("/schedules", form | {"do": what, "name": "nightly"} | more)).text

    assert "in the future" not in (said := do("add", flow="counting", cron="not cron"))
    assert "cron" in said
    assert "nightly is on; next at" in do("add", flow="counting", cron="0 7 * * *", inputs='{"upto": 2}')
    with outlast_of(place) as outlast:
        assert outlast.schedules.list()[0].inputs == {"upto": 2}
        assert "is paused" in do("pause")
        assert outlast.schedules.list()[0].paused
        assert "is on again" in do("resume")
        assert "waits in its queue" in do("trigger")
        assert outlast.runs(flow="counting", status="queued")
        assert "is forgotten" in do("remove")
        assert outlast.schedules.list() == []


def test_many_schedules_are_shown_a_page_at_a_time(tmp_path: Path) -> None:
    with Outlast(tmp_path / "home") as outlast:
        for number in range(101):
            outlast.schedules.add(f"every-{number:03}", flows.counting, "0 7 * * *", inputs={"upto": 1})
    with opened(tmp_path / "home") as place:
        first = place.visitor().get("/schedules").text
        assert ("every-099" in first, "every-100" in first) == (True, False)
        link = re.search(r'href="([^"]+)" rel="next"', first)
        assert link
        then = place.visitor().get(html.unescape(link[1])).text
        assert ("every-099" in then, "every-100" in then, 'rel="next"' in then) == (False, True, False)


def test_a_key_that_ends_is_signed_out(keyed: Place) -> None:
    visitor, key = keyed.visitor(), keyed.key("ann", "read")
    visitor.sign_in(key)
    assert visitor.get("/runs").status == 200
    keyed.server.state.keys.revoke(key.split("_")[1])
    assert visitor.get("/runs").status == 303


def test_a_key_by_which_somebody_signed_in_is_in_use(keyed: Place) -> None:
    visitor, key = keyed.visitor(), keyed.key("ann", "read")
    visitor.sign_in(key)
    assert visitor.get("/runs").status == 200
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not keyed.server.state.keys.list()[0].last_used_at:
        time.sleep(0.01)
    assert keyed.server.state.keys.list()[0].last_used_at


def test_a_cookie_reads_the_same_calls_as_json_and_changes_nothing_there(keyed: Place) -> None:
    visitor = keyed.visitor()
    visitor.sign_in(keyed.key("ann", "admin"))
    assert visitor.get("/v1/runs").status == 200
    sent = visitor.ask("POST", f"/v1/interrupts/{wait_of(keyed)}/answer", {}, **{"content-type": "application/json"})
    assert sent.status == 401


def test_who_signs_out_is_out(keyed: Place) -> None:
    visitor = keyed.visitor()
    visitor.sign_in(keyed.key("ann", "read"))
    visitor.post("/sign-out", {"token": visitor.get("/").hidden("token")})
    assert visitor.get("/").status == 303


def test_a_tenant_sees_nothing_of_another(keyed: Place) -> None:
    visitor, wait = keyed.visitor(), wait_of(keyed)
    visitor.sign_in(keyed.key("eve", "admin", tenant="elsewhere"))
    assert visitor.get(f"/inbox/{wait}").status == 404
    assert "Nothing waits for you" in visitor.get("/").text
    assert "kelp" not in visitor.get("/runs").text


def test_who_is_bound_to_scopes_sees_all_of_them_and_nothing_else_and_what_he_answers_goes_on(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Outlast(home) as outlast, Outlast(home, scope="web") as web:
        outlast.run(flows.report, "secretive", task="secretive")
        outlast.handoff.store("task:secretive-too", "secretive", "secretive", bind=False)
        ours, theirs = (each.workspace.record("note", "a note").ref for each in (web, outlast))
        outlast.workspace.link(theirs, "contradicts", outlast.workspace.record("note", "another").ref)
        run = web.run(flows.report, "kelp", task="kelp").run_id
        web.handoff.store("task:seen", "seen", "Open a.py.", bind=False)
        wait = web.interrupts(run)[0].id
    pages = ("/", "/runs", "/handoffs", "/handoffs?of=runs", "/handoffs?look=yes", "/tasks", "/acts", "/workspace")
    with opened(home, require_key=True) as place:
        visitor = place.visitor()
        visitor.sign_in(place.key("eve", "read", "write", "approve", scopes=["web"]))
        for path in (*pages, f"/runs/{run}", f"/workspace/why?ref={ours}", "/handoff?anchor=task%3Aseen&scope=web"):
            page = visitor.get(path)
            assert page.status == 200, (path, page.text)
            assert "secretive" not in page.text, path
        form = {name: visitor.get(f"/inbox/{wait}").hidden(name) for name in ("token", "shown", "operation")}
        assert "its run goes on" in visitor.follow(visitor.post(f"/inbox/{wait}", form | {"do": "approve"})).text
    with Outlast(home, scope="web") as web:
        assert web.wait(run, timeout=30).status == "succeeded"


# -- who did what ----------------------------------------------------------------------------------------


def _acts(shown: str) -> list[tuple[str, ...]]:
    """Who, what, on what, why: of each row of the page."""
    rows = re.findall(r"<tr data-row>(.*?)</tr>", shown)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row)[1:] for row in rows]
    return [tuple(html.unescape(re.sub(r"<[^>]+>", "", each)) for each in row) for row in cells]


def _further(shown: str) -> str:
    link = re.search(r'href="([^"]+)" rel="next">Look further back</a>', shown)
    return html.unescape(link[1]) if link else ""


def test_who_did_what_to_a_handoff_is_told_and_leads_to_it(tmp_path: Path) -> None:
    with Outlast(tmp_path / "home", actor="ann") as ann, Outlast(tmp_path / "home", actor="bob") as bob:
        ann.handoff.store("task:kelp", "Stopped at the header", "Open a.py.", bind=False)
        bob.handoff.recover("task:kelp", claim=True)
        bob.handoff.settle("task:kelp", "failed", note="the gauge is broken")
    with opened(tmp_path / "home") as place:
        shown = place.visitor().get("/acts").text
    assert _acts(shown) == [
        ("bob", "settled as failed", "task:kelp", "the gauge is broken"),
        ("bob", "claimed", "task:kelp", ""),
        ("ann", "stored revision 1", "task:kelp", "Stopped at the header"),
    ]
    assert 'href="/handoff?anchor=task%3Akelp&amp;scope=default"' in shown


def test_who_did_what_to_a_run_is_told(tmp_path: Path) -> None:
    with Outlast(tmp_path / "home", actor="ann") as ann, Outlast(tmp_path / "home", actor="bob") as bob:
        run = ann.run(flows.report, "kelp").run_id
        bob.answer(bob.interrupts(run)[0].id, {"approved": False, "comment": "too early"})
        failed = ann.run(flows.stumbling, "/nowhere")
        assert failed.status == "failed"
        bob.skip(failed.run_id, "stumble", result="", why="nobody needs it")
        assert ann.resume(failed.run_id).status == "succeeded"
        listening = ann.run(flows.listening).run_id
        bob.signal("tide", "high", run_id=listening)
        assert ann.resume(listening).status == "succeeded"
        bob.retry(ann.run(flows.stumbling, "/elsewhere").run_id, "stumble", why="it is there now")
        assert ann.resume(ann.runs(flow="stumbling")[0].id).status == "failed"
        aborted = ann.run(flows.report, "moss").run_id
        bob.abort(aborted, why="not this year")
    with opened(tmp_path / "home") as place:
        acts = _acts(place.visitor().get("/acts").text)
    assert [(who, what, why) for who, what, _, why in acts] == [
        ("bob", "aborted", "not this year"),
        ("ann", "started", ""),
        ("ann", "resumed", ""),
        ("bob", "retried stumble", "it is there now"),
        ("ann", "started", ""),
        ("ann", "resumed", ""),
        ("bob", "sent a signal", ""),
        ("ann", "started", ""),
        ("ann", "resumed", ""),
        ("bob", "skipped stumble", "nobody needs it"),
        ("ann", "started", ""),
        ("bob", "declined", "too early"),
        ("ann", "started", ""),
    ]
    assert acts[0][2] == f"report {aborted}"


def test_who_did_what_leads_further_back_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.doors.console.places.ACTS", 4)
    monkeypatch.setattr("outlast.care.acts.AT_A_TIME", 3)
    monkeypatch.setattr("outlast.care.acts.MOST", 2)
    with Outlast(tmp_path / "home", actor="ann") as outlast:
        for number in range(6):
            outlast.handoff.store(f"task:h{number}", "Stopped", "Open a.py.", bind=False)
        outlast.run(flows.counting, 20).unwrap()
        for number in range(6, 9):
            outlast.handoff.store(f"task:h{number}", "Stopped", "Open a.py.", bind=False)
    pages, path = list[list[str]](), "/acts"
    with opened(tmp_path / "home") as place:
        while path:
            shown = place.visitor().get(path).text
            pages.append([on.partition(" ")[0] for _, _, on, _ in _acts(shown)])
            path = _further(shown)
    stored = [f"task:h{number}" for number in range(8, -1, -1)]
    assert [each for page in pages for each in page] == [*stored[:3], "counting", *stored[3:]]
    assert [] in pages  # one that met nothing but steps, and led on
    assert max(map(len, pages)) == 4


def test_who_did_what_shows_nothing_of_another_tenant_or_scope(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Outlast(home, actor="ann") as outlast, Outlast(home, scope="web", actor="ann") as web:
        outlast.run(flows.report, "kelp", task="secretive")
        outlast.handoff.store("task:secretive", "secretive", "Open a.py.", bind=False)
        web.run(flows.report, "moss")
        web.handoff.store("task:seen", "seen", "Open a.py.", bind=False)
    with opened(home, require_key=True) as place:
        bound, elsewhere, whole = (place.visitor() for _ in range(3))
        bound.sign_in(place.key("eve", "read", scopes=["web"]))
        elsewhere.sign_in(place.key("mallory", "admin", tenant="elsewhere"))
        whole.sign_in(place.key("ann", "read"))
        assert [what for _, what, _, _ in _acts(bound.get("/acts").text)] == ["stored revision 1", "started"]
        assert "secretive" not in bound.get("/acts").text
        assert bound.get("/acts?scope=default").status == 403
        assert "Nobody did anything yet." in elsewhere.get("/acts").text
        assert len(_acts(whole.get("/acts").text)) == 4
        assert len(_acts(whole.get("/acts?scope=web").text)) == 2


def test_who_did_what_to_keys_and_targets_is_for_admins(tmp_path: Path) -> None:
    with Outlast(tmp_path / "home", actor="ann") as outlast:
        outlast.set_limit("api", concurrency=1)
    with opened(tmp_path / "home", require_key=True) as place:
        admin, reader = place.visitor(), place.visitor()
        admin.sign_in(place.key("ann", "admin"))
        token = admin.get("/keys").hidden("token")
        admin.post("/keys", {"token": token, "do": "create", "actor": "carla", "role": "read"})
        reader.sign_in(place.key("eve", "read"))
        made = [(who, what, on.split()[0]) for who, what, on, _ in _acts(admin.get("/acts").text)]
        assert made == [("ann", "made", "key"), ("ann", "set", "limit")]
        assert [what for _, what, _, _ in _acts(reader.get("/acts").text)] == ["set"]
        assert json.loads(reader.get("/v1/acts?kind=key").text)["items"] == []
        assert [each["what"] for each in json.loads(admin.get("/v1/acts?kind=key").text)["items"]] == ["made"]
        assert "carla" not in reader.get("/v1/acts").text
        assert _acts(admin.get("/acts?kind=limit&by=ann&since=1h").text) == [
            ("ann", "set", "limit api", "concurrency 1")
        ]
        assert "Nobody did such a thing yet." in admin.get("/acts?by=mallory").text
        assert "outlast acts --by mallory" in admin.get("/acts?by=mallory").text


# -- what is kept, and messages --------------------------------------------------------------------------


def test_an_artifact_is_a_file_to_save_and_no_page(tmp_path: Path) -> None:
    with Outlast(tmp_path / "home") as outlast:
        ref = outlast.workspace.save("page.html", "<script>alert(1)</script>").ref
    with opened(tmp_path / "home") as place:
        got = place.visitor().get(f"/content/artifact?ref={ref}")
        assert got.status == 200
        assert got.headers["content-disposition"].startswith("attachment")
        assert "sandbox" in got.headers["content-security-policy"]
        assert "<script>" not in place.visitor().get(f"/workspace/artifact?ref={ref}").text


def test_a_link_in_a_message_opens_one_wait_and_looking_answers_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Outlast(home) as outlast:
        run = outlast.run(flows.report, "kelp").run_id
        wait = outlast.interrupts(run)[0].id
    target = Targets(home).add(Target("ops", "webhook", "https://x", answers="ann", link="https://c"))
    with opened(home, require_key=True) as place, Outlast(home) as outlast:
        place.key("admin", "admin")
        visitor, path = place.visitor(), f"/answer/{answer_token(target, wait, int(time.time()))}"
        page = visitor.get(path)
        assert "Publish kelp?" in page.text
        assert visitor.ask("HEAD", path).status == 200
        assert outlast.interrupt(wait).status == "open"
        form = {name: page.hidden(name) for name in ("token", "shown", "operation")} | {"do": "approve"}
        assert "Answered; its run goes on." in visitor.follow(visitor.post(path, form)).text
        assert outlast.interrupt(wait).answered_by == "ann"
        assert visitor.get(f"/inbox/{wait}").status == 303  # it opens nothing else
        assert visitor.get("/answer/nonsense").status == 403


def test_a_link_is_good_for_one_answer_and_for_a_week(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Outlast(home) as outlast:
        run = outlast.run(flows.report, "kelp").run_id
        wait = outlast.interrupts(run)[0].id
    target = Targets(home).add(Target("ops", "webhook", "https://x", answers="ann", link="https://c"))
    with opened(home, require_key=True) as place, Outlast(home) as outlast:
        first, second = place.visitor(), place.visitor()
        now = int(time.time())
        path, over = (f"/answer/{answer_token(target, wait, at)}" for at in (now, now - 8 * 86400))
        forms = [
            {name: each.get(path).hidden(name) for name in ("token", "shown", "operation")} for each in (first, second)
        ]
        assert second.get(over).status == 403
        assert second.post(over, forms[1] | {"do": "decline"}).status == 403
        assert outlast.interrupt(wait).status == "open"
        first.post(path, forms[0] | {"do": "approve"})
        told = second.follow(second.post(path, forms[1] | {"do": "decline", "why": "no"})).text
        assert "ann" in told
        assert outlast.interrupt(wait).answer == {"approved": True}
        assert 'value="approve"' not in second.get(path).text  # nothing is left to press


def test_a_question_of_a_run_that_is_over_says_so_and_has_no_buttons(tmp_path: Path) -> None:
    with Outlast(tmp_path / "home") as outlast:
        run = outlast.run(flows.report, "kelp").run_id
        wait = outlast.interrupts(run)[0]
        outlast.abort(run, why="not this year")
        over = outlast.get(run)
    assert needs._void(None, wait, over) == {"title": "This question is void.", "why": "Its run has aborted."}  # type: ignore[arg-type]
    with opened(tmp_path / "home") as place:
        shown = place.visitor().get(f"/inbox/{wait.id}").text
        assert "This question is void." in shown
        assert 'value="approve"' not in shown


def test_a_link_shows_no_picture_that_it_does_not_open(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Outlast(home) as outlast:
        chart = outlast.workspace.save("chart.png", PNG, media_type="image/png")
        wait = outlast.interrupts(outlast.run(flows.report, "kelp", {"chart": chart.ref}).run_id)[0].id
    target = Targets(home).add(Target("ops", "webhook", "https://x", answers="ann", link="https://c"))
    with opened(home, require_key=True) as place:
        place.key("admin", "admin")
        shown = place.visitor().get(f"/answer/{answer_token(target, wait, int(time.time()))}").text
    assert "to see it" in shown
    assert "/content/artifact" not in shown


def test_a_link_is_of_the_tenant_whose_target_it_was_sent_to(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Outlast(home) as outlast, Outlast(home, tenant="elsewhere") as other:
        outlast.run(flows.report, "kelp")
        wait = other.interrupts(other.run(flows.report, "otters").run_id)[0].id
    ours, theirs = (
        Targets(home).add(Target(name, "webhook", "https://x", tenant=tenant, answers="ann", link="https://c"))
        for name, tenant in (("ops", "default"), ("their-ops", "elsewhere"))
    )
    with opened(home, require_key=True) as place:
        visitor = place.visitor()
        assert visitor.get(f"/answer/{answer_token(ours, wait, int(time.time()))}").status == 404
        page = visitor.get(f"/answer/{answer_token(theirs, wait, int(time.time()))}")
        assert (page.status, "Publish otters?" in page.text) == (200, True)


def test_a_list_of_runs_reads_no_large_result(tmp_path: Path) -> None:
    with Outlast(tmp_path / "home") as outlast:
        run = outlast.run(flows.publishing, 1_000_000)
        assert run.status == "succeeded"
        kept = [path for path in (tmp_path / "home").rglob("*") if path.is_file() and path.stat().st_size > 900_000]
        assert kept
        for path in kept:
            path.unlink()
    with opened(tmp_path / "home") as place:
        for path in ("/", "/runs"):
            shown = place.visitor().get(path).text
            assert f"/runs/{run.run_id}" in shown
            assert "damaged" not in shown, path


@pytest.mark.crash
def test_what_needs_somebody_is_there_the_oldest_first_and_counted_in_the_title(tmp_path: Path) -> None:
    home, place_of_work = tmp_path / "home", tmp_path / "work"
    place_of_work.mkdir()
    (place_of_work / "a.py").write_text("one")
    with Outlast(home) as outlast:
        assert outlast.run(flows.stumbling, "/nowhere").status == "failed"
        outlast.run(flows.report, "kelp")
    assert in_child(lambda tell: Outlast(home).run(flows.paying), 60).killed
    with Outlast(home) as outlast:
        assert outlast.resume(outlast.runs(flow="paying")[0].id).status == "waiting"
        named = {"target_files": ["a.py"], "repo_root": str(place_of_work)}
        outlast.handoff.store("task:repair", "Stopped", "Open a.py.", **named)
    (place_of_work / "a.py").write_text("two")
    with opened(home, looks_here=True) as place:
        shown = place.visitor().get("/").text
    assert "<title>(4)" in shown
    places = [shown.index(f">{word}</span>") for word in ("failed", "approval", "in doubt", "contested")]
    assert places == sorted(places)


def test_a_step_in_which_its_process_died_again_and_again_needs_somebody(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert in_child(lambda tell: Outlast(home).run(flows.dying), 60).killed
    with Outlast(home, settings=Settings(crashes_before_asking=1)) as outlast:
        run = outlast.runs(flow="dying")[0].id
        assert outlast.resume(run).status == "waiting"
    with opened(home) as place:
        shown = place.visitor().get("/").text
    assert "<title>(1)" in shown
    assert ">crash loop</span>" in shown
    assert f"/runs/{run}" in shown


def test_a_queue_is_paused_and_let_out_again_by_its_button(tmp_path: Path) -> None:
    with Outlast(tmp_path / "home") as outlast:
        outlast.with_options(queue="nightly").start(flows.counting, 3)
    with opened(tmp_path / "home") as place:
        visitor = place.visitor()
        for do, says in (("pause", "paused</span> by local"), ("resume", "lets runs out")):
            form = {"token": visitor.get("/queues").hidden("token"), "queue": "nightly", "do": do}
            assert says in visitor.follow(visitor.post("/queues", form)).text


def test_recall_is_tried_on_a_page_with_what_is_packed_why_and_what_is_left_out(tmp_path: Path) -> None:
    with Outlast(tmp_path / "home") as outlast:
        for number in range(40):
            outlast.workspace.record("note", f"kelp {number} grows in cold water " + "and tide after tide " * 20)
        outlast.workspace.record("note", "the gauge is broken")
    with opened(tmp_path / "home") as place:
        shown = place.visitor().get("/workspace/recall?goal=where+does+kelp+grow&budget=400").text
    assert "of 400 tokens." in shown
    assert re.search(r"kelp \d+ grows in cold water", shown)
    assert "the gauge is broken" not in shown
    assert "<h2>Left out</h2>" in shown


ODD_ANCHOR = "task:it's `late`"


def test_a_handoff_s_page_has_a_prompt_to_copy_and_says_what_could_be_better(tmp_path: Path) -> None:
    with Outlast(tmp_path / "home") as outlast:
        stored = outlast.handoff.store(ODD_ANCHOR, "Stopped", "Fix it.", next_action="Open a.py", bind=False)
    with opened(tmp_path / "home") as place:
        shown = place.visitor().get(f"/handoff?anchor={quote(ODD_ANCHOR)}").text
    prompt = html.unescape(re.findall(r'data-copy="([^"]*)"', shown)[0])
    command = prompt.removeprefix("Run `").partition("` and do what it says. First: Open a.py")[0]
    asked = ["outlast", "handoff", "recover", ODD_ANCHOR, "--scope", "default", "--prompt"]
    assert shlex.split(command) == asked
    assert stored.lint.findings
    for finding in stored.lint.findings:
        assert finding.says in html.unescape(shown)
        assert finding.better in html.unescape(shown)


def test_of_more_failed_runs_than_a_page_has_it_says_so_and_leads_to_all(tmp_path: Path) -> None:
    with Outlast(tmp_path / "home") as outlast:
        for number in range(51):
            assert outlast.run(flows.stumbling, f"/nowhere/{number}").status == "failed"
    with opened(tmp_path / "home") as place:
        text = place.visitor().get("/").text
        assert "<title>(50+) Needs you" in text
        assert '<a href="/runs?status=failed">look at all of them</a>' in text


def test_a_word_is_looked_for_among_so_many_runs_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.doors.console.run.LOOKED_AT", 5)
    with Outlast(tmp_path / "home") as outlast:
        for number in range(8):
            outlast.run(flows.counting, number, task=f"count-{number}").unwrap()
    with opened(tmp_path / "home") as place:
        visitor = place.visitor()
        first = visitor.get("/runs?text=count-1")
        assert "No run is all of that among the next 5 that were looked at." in first.text
        link = re.search(r'href="([^"]+)" rel="next">Look further back</a>', first.text)
        assert link
        then = visitor.get(html.unescape(link[1])).text
        assert "count-1</td>" in then
        assert "Look further back" not in then


def test_the_pictures_of_the_docs_are_there_and_small() -> None:
    docs = Path(__file__).parents[2] / "docs"
    found = re.findall(r"\(images/(console-[a-z]+\.png)\)", (docs / "console.md").read_text())
    assert len(found) == 4
    assert all(0 < (docs / "images" / name).stat().st_size < 200_000 for name in found)


def test_a_server_tells_by_itself_what_waits(tmp_path: Path) -> None:
    home, told = tmp_path / "home", tmp_path / "told.jsonl"
    target = Targets(home).add(Target("log", "command", f"cat >> {told}", on=("opened",)))
    with Outlast(home) as outlast:
        Notifier(outlast, home, "default").begin(target)
        run = outlast.run(flows.report, "kelp").run_id  # before there is a server
        with opened(home):
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline and not (told.exists() and told.read_text()):
                time.sleep(0.02)
    assert run in told.read_text()


def test_the_console_of_ones_own_home_goes_on_with_flows_where_they_lie(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(
        "from outlast import Run, flow\n\n\n@flow\ndef selling(run: Run) -> bool:\n"
        '    return run.pause_for("approval", payload={"question": "Sell?"})["approved"]\n'
    )
    home = tmp_path / ".outlast"
    with Outlast(home) as outlast:
        run = outlast.run(find_flow(f"{file}:selling", str(home))).run_id
        wait = outlast.interrupts(run)[0].id
    with opened(home, flows=(), looks_here=True) as place, Outlast(home) as outlast:
        visitor = place.visitor()
        page = visitor.get(f"/inbox/{wait}")
        form = {name: page.hidden(name) for name in ("token", "shown", "operation")} | {"do": "approve"}
        assert "Answered; its run goes on." in visitor.follow(visitor.post(f"/inbox/{wait}", form)).text
        assert outlast.wait(run, timeout=30).result is True
