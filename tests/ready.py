"""Python processes that start at once: forked from one that has read Outlast's code already, and nothing else.

`run` is `subprocess.run([sys.executable, *words])` for programs that run to their end: a process of its own with its
own folder, environment, streams, signals and exit code; `completed` is the same with the arguments of `subprocess.run`.
`Started` is `subprocess.Popen([sys.executable, *words])`, for those that are signalled, killed or seated at a terminal.
`by_name` is for who starts programs by their name (relay.py). What must be a child of its own starter starts one. Not
forked from the tests' process, whose threads and open files of SQLite would come along. What serves is forked from a
second one, which has read the servers' code too.
"""

import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import traceback
import types
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

from outlast import failpoints
from outlast.store.nouns import rows

SECONDS = 60.0
RELAY = Path(__file__).with_name("relay.py")
ROOMS = (  # what a command may need
    *("values", "ledger", "secrets", "store", "files", "home", "flows", "workspace", "resources", "runs", "commands"),
    *("handoffs", "tasks", "sessions", "care", "operations", "python", "doors.cli", "doors.hooks"),
)
SERVERS = ("remote", "worker", "doors.http", "doors.mcp", "doors.console")  # what one may need that serves
SERVING = {"serve", "mcp", "console", "work"}


# -- who asks ----------------------------------------------------------------------------------------


def environment(**more: str) -> dict[str, str]:
    """What a process finds around it: nothing of ours, but who acts."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
    return kept | {"OUTLAST_ACTOR": "local"} | more


def hear() -> None:
    """A command hears Ctrl-C, also when these tests run in the background of a shell, which lets none through."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run(
    words: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """What `python WORDS` came to: `-m MODULE …` or `SCRIPT …`."""
    ours, theirs = zip(*(_pipe(reads) for reads in (False, True, True)), strict=True)
    with ThreadPoolExecutor(3) as threads, contextlib.closing(_ask(words, cwd, env, theirs)) as answer:
        threads.submit(_write, ours[0], stdin)
        out, err = (threads.submit(_read, end) for end in ours[1:])
        said = answer.recv(16) and answer.recv(16)
        assert said, f"{words} has not ended after {SECONDS} s, or the process that started it is gone"
        return subprocess.CompletedProcess(words, int(said), out.result(SECONDS), err.result(SECONDS))


def completed(
    words: Sequence[str | Path],
    *,
    input: str | bytes | None = None,
    capture_output: bool = False,
    timeout: float = SECONDS,
    check: bool = False,
    **how: Any,
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run([sys.executable, *words], …)`."""
    how |= dict.fromkeys(("stdout", "stderr"), subprocess.PIPE) if capture_output else {}
    how |= {"stdin": subprocess.PIPE} if input is not None else {}
    with Started(words, **how) as started:
        try:
            out, err = started.communicate(input, timeout)
        except BaseException:
            started.kill()
            raise
    done = subprocess.CompletedProcess(words, started.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def by_name(*words: str) -> dict[str, Any]:
    """The command and its arguments for who starts `python WORDS` by name."""
    return {"command": sys.executable, "args": ["-I", "-S", str(RELAY), _address(_kind(words)), *words]}


class Started(subprocess.Popen[Any]):
    """`subprocess.Popen([sys.executable, *words], …)`: a process with its own streams, folder and environment, which is
    signalled, waited for and talked to like any other. With `session` it leads one, at the terminal that its stdin is.
    """

    def __init__(self, words: Sequence[str], *, session: bool = False, **how: Any) -> None:
        self._session, self._looking = session, threading.Lock()
        super().__init__(words, **how)

    def _execute_child(self, *given: Any) -> None:  # type: ignore[override]
        words, cwd, env, ends = given[0], given[5], given[6], given[10:16]
        streams = [os.dup(number if end == -1 else end) for number, end in enumerate((ends[0], ends[3], ends[5]))]
        self._answer = _ask(words, cwd or Path.cwd(), os.environ if env is None else env, streams, self._session)
        self._close_pipe_fds(*ends)  # type: ignore[attr-defined]
        self.pid = int(self._answer.recv(16))
        self._child_created = True

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        """Not waited for as a child, which it is not: the exit code is told."""
        with self._looking:
            if self.returncode is None and select.select([self._answer], [], [], 0)[0]:
                self.returncode = int(self._answer.recv(16) or b"-255")
                self._answer.close()
            return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None:
            with contextlib.suppress(ValueError, OSError):  # another thread was told
                select.select([self._answer], [], [], timeout)
            if self._internal_poll() is None:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        assert self.returncode is not None
        return self.returncode


def _pipe(reads: bool) -> tuple[int, int]:
    """Our end and theirs."""
    read, write = os.pipe()
    return (read, write) if reads else (write, read)


def _write(end: int, content: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(end, "wb") as file:
        file.write(content)


def _read(end: int) -> bytes:
    with open(end, "rb") as file:
        return file.read()


def _ask(
    words: Sequence[str], cwd: Path, env: Mapping[str, str], streams: Sequence[int], session: bool = False
) -> socket.socket:
    """Have it started; what is given answers with its pid, then with its exit code."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(SECONDS)
    with theirs, tempfile.TemporaryFile() as asked:
        asked.write(json.dumps([[*map(os.fspath, words)], os.fspath(cwd), dict(env), session]).encode())
        asked.seek(0)
        socket.send_fds(_server(_kind(words)), [b"x"], [theirs.fileno(), asked.fileno(), *streams])
    for end in streams:
        os.close(end)
    return ours


_starting = threading.Lock()


def _kind(words: Sequence[str]) -> str:
    return "serving" if SERVING.intersection(words) else "commands"


def _server(kind: str) -> socket.socket:
    with _starting:
        return _started(kind)


def _address(kind: str) -> str:
    """Where it can be asked."""
    return bytes(_server(kind).getpeername()).removeprefix(b"\0").decode()


@functools.cache
def _started(kind: str) -> socket.socket:
    """The process that forks the others; it ends when these tests do, since nobody can ask any more."""
    ours, theirs = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
    theirs.bind(f"\0outlast-ready-{os.getpid()}-{kind}")
    ours.connect(theirs.getsockname())
    words = [sys.executable, __file__, str(theirs.fileno()), kind]
    started = subprocess.Popen(
        words, env=environment(), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, preexec_fn=hear
    )
    theirs.close()
    assert started.poll() is None
    return ours


# -- who forks ---------------------------------------------------------------------------------------


def serve(asked: socket.socket) -> None:
    """Fork whatever is asked for, until nobody can ask any more. Returns in each fork as well."""
    woken, wakes = socket.socketpair()
    wakes.setblocking(False)
    woken.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with selectors.DefaultSelector() as selector:
        for end in (asked, woken):
            selector.register(end, selectors.EVENT_READ)
        answers: dict[int, int] = {}
        parent = os.getppid()
        while os.getppid() == parent:
            ready = [key.fileobj for key, _ in selector.select(1.0)]
            if woken in ready:
                woken.recv(4096)
                _answer(answers)
            if asked in ready and (program := _fork(asked, answers)):
                break
        else:
            return
    for end in (woken, wakes, asked):
        end.close()
    program()


def _answer(answers: dict[int, int]) -> None:
    """Tell of everyone who has ended."""
    while answers:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with contextlib.suppress(BrokenPipeError):  # who asked has given up
            os.write(answers[pid], str(os.waitstatus_to_exitcode(status)).encode())
        os.close(answers.pop(pid))


def _fork(asked: socket.socket, answers: dict[int, int]) -> Any:
    """In the fork: what it is to do."""
    _, (answer, request, *streams), _, _ = socket.recv_fds(asked, 1, 5)
    pid = os.fork()
    if pid == 0:
        for end in (answer, *answers.values()):
            os.close(end)
        return functools.partial(_become, request, streams)
    answers[pid] = answer
    with contextlib.suppress(BrokenPipeError):
        os.write(answer, str(pid).encode())
    for end in (request, *streams):
        os.close(end)
    return None


def _become(request: int, streams: Sequence[int]) -> NoReturn:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with open(request, "rb") as file:
        words, folder, env, session = json.load(file)
    os.environ.clear()
    os.environ.update(env)
    failpoints.arm_from_environment()
    os.chdir(folder)
    for number, end in enumerate(streams):
        os.dup2(end, number)
        os.close(end)
    if session:
        os.setsid()
    if session and os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    encoding, _, errors = (part or None for part in env.get("PYTHONIOENCODING", "").partition(":"))
    sys.stdin, sys.stdout = (open(end, how, encoding=encoding, errors=errors) for end, how in ((0, "r"), (1, "w")))  # noqa: SIM115
    sys.stderr = open(2, "w", encoding=encoding, errors="backslashreplace", buffering=1)  # noqa: SIM115
    _end(_exit_code(words))


def _exit_code(words: list[str]) -> int:
    try:
        _live(words)
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            return (left.code or 0) & 0xFF
        sys.stderr.write(f"{left.code}\n")
        return 1
    except BaseException as error:
        traceback.print_exc()
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _live(words: list[str]) -> None:
    """What the interpreter does with its words."""
    del sys.path[0]
    first = [] if words[0] == "-P" else [os.getcwd()]
    words = words[1:] if words[0] == "-P" else words
    if words[0] == "-m":
        sys.argv, sys.path[:0] = words[1:], first
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv, sys.path[:0] = ["-c", *words[2:]], first and [""]
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        exec(compile(words[1], "<string>", "exec"), vars(main))
    else:
        sys.argv, sys.path[:0] = words, first and [os.path.dirname(os.path.abspath(words[0]))]
        runpy.run_path(words[0], run_name="__main__")


def _end(code: int) -> NoReturn:
    """What the interpreter does at its end, but for freeing every module, which takes longer than all the rest."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if code < 0:  # by this signal, as one ends whom Ctrl-C interrupted
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def read_everything(rooms: Sequence[str]) -> None:
    """Import what a command may need. What cannot be imported says so to who needs it."""
    for room in rooms:
        package = importlib.import_module(f"outlast.{room}")
        for module in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                with contextlib.suppress(Exception):
                    importlib.import_module(module.name)
    for name in ("yaml", "encodings.utf_8_sig"):  # which flow files need
        importlib.import_module(name)
    rows.statements("sqlite")
    rows.migrations("sqlite")
    rows.newest_version("sqlite")


def main() -> None:
    read_everything(ROOMS + SERVERS * (sys.argv[2] == "serving"))
    gc.collect()
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
