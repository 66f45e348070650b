"""The pages as routes of a server: who looks is let in, a page is made in a thread, a form is checked and done once."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec import Struct
from starlette.routing import BaseRoute

from outlast.doors.console import needs, places, render, run
from outlast.doors.console.asked import PageRequest, Visit, fields, word
from outlast.doors.http import blobs, bodies
from outlast.doors.http.calls import OperationRoute
from outlast.doors.http.exchange import Headers, Message, problem_of
from outlast.doors.http.identity import Identity
from outlast.doors.http.streams import ALL, Follower, WatchedRun, followed
from outlast.errors import Forbidden, MediaTypeRefused, MethodRefused, NotFound, OutlastError, Unauthenticated
from outlast.worker.targets import Targets, check_answer_token

if TYPE_CHECKING:
    from outlast.doors.http.exchange import Exchange
    from outlast.doors.http.state import ServerState

Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
HTML = b"text/html; charset=utf-8"
FORM = "application/x-www-form-urlencoded"
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
CHANGES_SECONDS = 0.4  # between two times that a page is told to look again
STATIC = {".js": b"text/javascript; charset=utf-8", ".css": b"text/css; charset=utf-8", ".svg": b"image/svg+xml"}
COMPRESSED = 1024  # bytes from which on it is worth it


class Shows(Struct, frozen=True):
    """A page: its path, what it shows, which command shows the same, where that is as JSON, what a form of it does.

    Its template is called as what makes its values, and it is under the tab that its path begins with.
    """

    path: str
    shows: Callable[[PageRequest], dict[str, Any]]
    command: str = ""
    json: str = ""
    posts: Callable[[PageRequest], str | dict[str, Any]] | None = None  # where to go, or what else the page shows

    @property
    def template(self) -> str:
        return f"{self.shows.__name__}.html"

    @property
    def tab(self) -> str:
        first = self.path.split("/")[1]
        return TABS.get(first, first)


def help(asked: PageRequest) -> dict[str, Any]:
    """It says the same to everybody."""
    return {}


TABS = {"": "needs", "inbox": "needs", "answer": "needs", "handoff": "handoffs"}
PLAN, PLAN_JSON = "outlast resume {run_id} --dry-run", "/v1/runs/{run_id}/plan"
WAIT = ("outlast answer {interrupt_id}", "/v1/interrupts/{interrupt_id}")
RECALL = ("outlast workspace recall {goal}", "POST /v1/workspace/recall")
ARTIFACT = ("outlast workspace get {ref}", "/v1/workspace/artifact?ref={ref}")
SESSION = ("outlast session show {session_id}", "/v1/sessions/{session_id}/messages")
SCHEDULES = ("outlast schedule list", "/v1/schedules")
SCREENS = (
    Shows("/", needs.needs, "outlast inbox", "/v1/inbox"),
    Shows("/runs", run.runs, "outlast runs", "/v1/runs", run.many),
    Shows("/runs/{run_id}", run.run, "outlast show {run_id} --timeline", "/v1/runs/{run_id}", run.act),
    Shows("/runs/{run_id}/plan", run.plan, PLAN, PLAN_JSON),
    Shows("/runs/{run_id}/choose", run.choose, PLAN, PLAN_JSON, run.act),
    Shows("/inbox/{interrupt_id}", needs.item, *WAIT, needs.answer),
    Shows("/handoffs", places.handoffs, "outlast handoff list", "/v1/handoffs"),
    Shows("/handoff", places.handoff, "outlast handoff show {anchor}", "/v1/handoff?anchor={anchor}"),
    Shows("/workspace", places.workspace, "outlast workspace records"),
    Shows("/workspace/why", places.why, "outlast workspace why {ref}", "/v1/workspace/why?ref={ref}"),
    Shows("/workspace/recall", places.recall, *RECALL),
    Shows("/workspace/artifact", places.artifact, *ARTIFACT),
    Shows("/tasks", places.tasks, "outlast task list", "/v1/tasks"),
    Shows("/tasks/{task_id:path}", places.task, "outlast task inspect {task_id}", "/v1/tasks/{task_id}/inspect"),
    Shows("/sessions", places.sessions, "outlast session list", "/v1/sessions"),
    Shows("/sessions/{session_id:path}", places.session, *SESSION),
    Shows("/queues", places.queues, "outlast queue list", "/v1/queues", places.pause_queue),
    Shows("/schedules", places.schedules, *SCHEDULES, places.change_schedule),
    Shows("/system", places.system, "outlast doctor", "/v1/facts"),
    Shows("/keys", places.keys, "outlast keys list", "/v1/keys", places.change_keys),
    Shows("/acts", places.acts, "outlast acts", "/v1/acts"),
    Shows("/help", help, "outlast --help", "/openapi.json"),
)


def pages(state: ServerState) -> Iterable[BaseRoute]:
    """Every page of the console."""
    yield OperationRoute("/static/{name}", PageEndpoint("/static/{name}", _static))
    yield OperationRoute("/sign-in", PageEndpoint("/sign-in", _sign_in))
    yield OperationRoute("/sign-out", PageEndpoint("/sign-out", _sign_out))
    yield OperationRoute("/answer/{token}", PageEndpoint("/answer/{token}", _by_link))
    yield OperationRoute("/live", PageEndpoint("/live", _live))
    for path, name in (("/content/artifact", "workspace_content"), ("/content/log/{run_id}", "run_log")):
        yield OperationRoute(path, PageEndpoint(path, _content(name)))
    for screen in SCREENS:
        yield OperationRoute(screen.path, PageEndpoint(screen.path, _shown(screen)))


class PageEndpoint:
    """A path of the console; what goes wrong there is told on a page."""

    def __init__(self, route: str, serves: Callable[[Visit], Awaitable[None]]) -> None:
        self._route, self._serves = route, serves

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope["outlast"]
        exchange.route, exchange.path = self._route, scope.get("path_params", {})
        visit = Visit(exchange)
        try:
            await self._serves(visit)
        except Unauthenticated as error:
            await _to_sign_in(visit, error)
        except OutlastError as error:
            if exchange.status:
                raise
            await _refused(visit, error)


# -- a page --------------------------------------------------------------------------------------------


def _shown(screen: Shows) -> Callable[[Visit], Awaitable[None]]:
    async def serves(visit: Visit) -> None:
        exchange = visit.exchange
        identity = visit.enter()
        exchange.leave = exchange.state.limits.begin_request(identity)
        if exchange.method == "POST" and screen.posts is not None:
            asked = await _form(visit)
            came = await exchange.in_thread(screen.posts, asked, writes=True)
            if isinstance(came, str):
                await _answer(visit, 303, b"", [(b"location", _in_header(came))])
            else:
                await _answer(visit, 200, await exchange.in_thread(partial(_made, screen, visit, **came)))
            return
        if exchange.method not in ("GET", "HEAD"):
            raise MethodRefused(exchange.method[:20], screen.path, "GET, POST" if screen.posts else "GET")
        await _answer(visit, 200, await exchange.in_thread(_made, screen, visit))

    return serves


def _made(screen: Shows, visit: Visit, **more: Any) -> bytes:
    """A page's HTML: in a worker thread, since it reads the store."""
    asked = PageRequest(visit)
    values = screen.shows(asked) | more
    known = (asked.query | asked.path).items()
    command = values.pop("command", None) or _filled(screen.command, {name: word(value) for name, value in known})
    json = values.pop("json", None) or _filled(screen.json, {name: quote(value, safe="") for name, value in known})
    around = _around(visit, screen.tab) | {"command": command, "json": json, "asked": asked}
    return render.page(screen.template, **around, **values)


def _filled(text: str, known: dict[str, str]) -> str:
    """A template's words in their places; without those that are not known."""
    for name, value in known.items():
        text = text.replace(f"{{{name}}}", value)
    return " ".join(word for word in text.split(" ") if not word.startswith("{"))


def _around(visit: Visit, tab: str) -> dict[str, Any]:
    """What every page has."""
    identity = visit.exchange.identity
    return {
        "tab": tab,
        "token": visit.token,
        "said": visit.said(),
        "actor": identity.actor if identity else "",
        "signed_in": bool(identity and identity.key),
        "tenant": identity.tenant if identity else "",
        "admin": bool(identity and identity.may("admin")),
        "version": _version(),
    }


async def _answer(visit: Visit, status: int, body: bytes, more: Headers | None = None) -> None:
    headers: Headers = [(b"content-security-policy", POLICY), (b"vary", b"Cookie, Accept-Encoding"), *visit.sets]
    headers.append((b"referrer-policy", b"same-origin"))  # without any, a browser says `Origin: null` of our own forms
    body, packed = _packed(visit.exchange, body)
    await visit.exchange.answer(status, body, HTML, [*headers, *packed, *(more or [])])


def _packed(exchange: Exchange, body: bytes) -> tuple[bytes, Headers]:
    if len(body) < COMPRESSED or "gzip" not in (exchange.header("accept-encoding") or ""):
        return body, []
    return gzip.compress(body, 5), [(b"content-encoding", b"gzip")]


def _in_header(place: str) -> bytes:
    return quote(place, safe="/?&=%:+,-._~@!$'()*;#").encode()


async def _refused(visit: Visit, error: OutlastError) -> None:
    problem = problem_of(error)
    body = render.page("problem.html", **_around(visit, ""), problem=problem, command="", json="")
    await _answer(visit, problem.status, body)


# -- signing in ------------------------------------------------------------------------------------------


async def _form(visit: Visit) -> PageRequest:
    """A form that one of our pages sent. Raises Forbidden, MediaTypeRefused, BodyTooLarge."""
    exchange, settings = visit.exchange, visit.exchange.state.settings
    kind = (exchange.header("content-type") or "").partition(";")[0].strip().lower()
    if kind != FORM:
        raise MediaTypeRefused(f"the media type {kind[:100]!r}", FORM)
    raw = await bodies.read(exchange.receive, exchange.length, settings.body_bytes, settings.body_seconds)
    pairs, many = fields(raw), dict[str, list[str]]()
    for name, value in pairs:
        many.setdefault(name, []).append(value)
    form = {name: values[-1] for name, values in many.items()}
    visit.check_post(form.get("token", ""))
    return PageRequest(visit, form, many)


async def _to_sign_in(visit: Visit, error: Unauthenticated) -> None:
    if visit.exchange.method != "GET":
        await _refused(visit, Forbidden("you are not signed in any more", "sign in, and send it again"))
        return
    place = visit.exchange.scope["path"]
    query = visit.exchange.scope["query_string"].decode("latin-1")
    back = quote(f"{place}?{query}" if query else place, safe="")
    await _answer(visit, 303, b"", [(b"location", f"/sign-in?back={back}".encode())])


async def _sign_in(visit: Visit) -> None:
    wrong, asked = "", PageRequest(visit)
    if visit.exchange.method == "POST":
        asked = await _form(visit)
        back = asked.form.get("back", "/")
        try:
            await visit.exchange.in_thread(visit.sign_in, asked.form.get("key", ""))
        except Unauthenticated as error:
            wrong = str(error.detail)
        else:
            await _answer(visit, 303, b"", [(b"location", _in_header(_own(back)))])
            return
    back = asked.form.get("back") or asked.query.get("back", "/")
    body = render.page("sign_in.html", **_around(visit, ""), wrong=wrong, back=_own(back), command="", json="")
    await _answer(visit, 401 if wrong else 200, body)


async def _by_link(visit: Visit) -> None:
    """The page of one wait, for whom a message brought a link to it. Looking answers nothing: programs open links."""
    exchange = visit.exchange
    token = exchange.path["token"]
    targets = await exchange.in_thread(Targets(exchange.state.settings.found.path).all)
    found = check_answer_token(targets, token, int(time.time()))
    if found is None:
        raise Forbidden("this link is over, or is none", "sign in, and answer there")
    known, target = found
    exchange.identity = Identity(target.tenant, known.actor, ("read", "approve"))
    exchange.path = {"interrupt_id": known.interrupt}
    if exchange.method == "POST":
        asked = await _form(visit)
        await exchange.in_thread(needs.answer, asked, writes=True)
        await _answer(visit, 303, b"", [(b"location", f"/answer/{token}".encode())])
        return
    await _answer(visit, 200, await exchange.in_thread(_made, BY_LINK, visit))


BY_LINK = Shows("/answer/{token}", needs.item)


def _own(place: str) -> str:
    """A path of this server, whatever was given."""
    return place if place.startswith("/") and not place.startswith(("//", "/\\")) else "/"


async def _sign_out(visit: Visit) -> None:
    if visit.exchange.method != "POST":
        raise MethodRefused(visit.exchange.method[:20], "/sign-out", "POST")
    await _form(visit)
    visit.sign_out()
    await _answer(visit, 303, b"", [(b"location", b"/sign-in")])


# -- what is no page -------------------------------------------------------------------------------------


@cache
def _files() -> dict[str, tuple[bytes, bytes, bytes]]:
    """The static files by name: their type, their bytes, and the same packed."""
    found = {}
    for path in sorted((render.HERE / "static").iterdir()):
        if path.suffix in STATIC:
            raw = path.read_bytes()
            found[path.name] = STATIC[path.suffix], raw, gzip.compress(raw, 9, mtime=0)
    return found


@cache
def _version() -> str:
    """Changes with any of the static files: they are kept by browsers until then."""
    return hashlib.sha256(b"".join(raw for _, raw, _ in _files().values())).hexdigest()[:12]


async def _static(visit: Visit) -> None:
    found = _files().get(visit.exchange.path["name"])
    if found is None:
        raise NotFound(visit.exchange.path["name"][:100])
    kind, raw, packed = found
    accepts = "gzip" in (visit.exchange.header("accept-encoding") or "")
    more: Headers = [(b"cache-control", b"public, max-age=31536000, immutable"), (b"vary", b"Accept-Encoding")]
    more += [(b"content-encoding", b"gzip")] if accepts else []
    await visit.exchange.answer(200, packed if accepts else raw, kind, more)


def _content(name: str) -> Callable[[Visit], Awaitable[None]]:
    """Bytes of an artifact or a transcript: as a file to save, which no browser takes for a page."""

    async def serves(visit: Visit) -> None:
        visit.enter()
        await blobs.SERVES[name](visit.exchange)

    return serves


async def _live(visit: Visit) -> None:
    """Tells a page when to look again: at once, whenever something happens, and every now and then."""
    exchange = visit.exchange
    exchange.is_stream = True
    identity = visit.enter()
    exchange.leave = exchange.state.limits.begin_request(identity, stream=True)
    asked = PageRequest(visit)
    run_id = asked.query.get("run", ALL)
    outlast = await exchange.in_thread(
        lambda: exchange.state.hold_for(identity, None, None, None, came_from=exchange.came_from)
    )
    if run_id:
        run_id = (await exchange.in_thread(lambda: outlast.get(run_id))).id

    async def sends(watch: WatchedRun, follower: Follower) -> None:
        while not (follower.gone or exchange.ended or exchange.state.ending.is_set()):
            follower.wake.clear()
            await exchange.send({"type": "http.response.body", "body": CHANGED, "more_body": True})
            try:
                async with asyncio.timeout(exchange.state.settings.heartbeat_seconds):
                    await follower.wake.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(CHANGES_SECONDS)
        await exchange.send({"type": "http.response.body", "body": b""})

    await followed(exchange, outlast, run_id, sends)


CHANGED = b"event: changed\ndata: .\n\n"
