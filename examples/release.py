"""An effect whose process dies half way, three times, and is never done twice.

The registry below is the outside world: a file that lists what was uploaded, each upload under the effect's key.
A child process runs the flow and is killed by SIGKILL just before or just after an upload. The parent then
makes the same call: the probe looks the key up, and only what did not happen is done.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from outlast import KEY, NOT_DONE, UNKNOWN, Happened, Outlast, Run, effect, flow, step

REGISTRY = Path("registry.txt")
BUILDS = Path("builds.txt")


def uploads() -> list[str]:
    return REGISTRY.read_text().splitlines() if REGISTRY.exists() else []


def builds() -> list[str]:
    return BUILDS.read_text().splitlines() if BUILDS.exists() else []


def die_if_told(moment: str) -> None:
    if os.environ.get("DIE") == moment:
        os.kill(os.getpid(), signal.SIGKILL)


def was_uploaded(key: str) -> object:
    """The probe: the registry can be asked by key, so it never has to guess."""
    return Happened(key) if key in uploads() else NOT_DONE


@step
def build(version: str) -> str:
    with BUILDS.open("a") as log:
        log.write(f"{version}\n")
    return f"app-{version}.tar.gz"


@effect(confirm=was_uploaded)
def upload(archive: str, *, key: str = KEY) -> str:
    die_if_told("before upload")
    with REGISTRY.open("a") as registry:
        registry.write(f"{key}\n")
    die_if_told("after upload")
    return key


def nobody_can_tell() -> object:
    """A mailing list cannot be asked what it received."""
    return UNKNOWN


@effect(confirm=nobody_can_tell)
def announce(archive: str) -> str:
    die_if_told("announcing")
    return f"announced {archive}"


@flow
def release(run: Run, version: str) -> str:
    archive = build(version)
    upload(archive)
    return announce(archive)


def killed_at(moment: str) -> None:
    child = subprocess.run([sys.executable, __file__, "child"], env={**os.environ, "DIE": moment})
    assert child.returncode == -signal.SIGKILL, child.returncode
    print(f"killed {moment}: {len(uploads())} upload(s)")


def main() -> None:
    uploaded, built = len(uploads()), len(builds())  # by an earlier run of this example
    for moment in ("before upload", "after upload", "announcing"):
        killed_at(moment)

    with Outlast() as outlast:
        outcome = outlast.run(release, "1.0")  # the same call continues the same run
        assert outcome.status == "waiting", outcome
        (wait,) = outcome.interrupts
        print(f"waiting: {wait.says} (choices: {', '.join(wait.choices)})")

        outlast.skip(outcome.run_id, "announce", result="announced", why="I found it in the list's archive")
        outcome = outlast.resume(outcome.run_id)
        print(f"{outcome.status}: {outcome.unwrap()}")
        assert (len(uploads()), len(builds())) == (uploaded + 1, built + 1)
        assert outlast.verify().ok


if __name__ == "__main__":
    if sys.argv[1:] == ["child"]:
        Outlast().run(release, "1.0")
    else:
        main()
