"""Named points between any two writes at which a test may kill the process.

Off, a point costs one look at a module variable. `OUTLAST_FAILPOINT=name:n` kills the process with
SIGKILL at the nth time `name` is reached; `OUTLAST_FAILPOINT_LOG=file` writes down every point reached,
which is how tests learn all the places where a run can be killed.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable

POINTS = (
    "commit.begin",  # before BEGIN: nothing of the batch is written
    "commit.applied",  # statements done, before COMMIT
    "commit.done",  # durable, before anyone is told
    "blob.written",  # the temporary file is synced, before it has its name
    "blob.named",  # renamed, before the folder is synced
    "blob.synced",  # durable, before any reference to it
    "step.begun",  # the start is registered (and synced where it must be), before the body
    "step.ended",  # the body returned or raised, before its receipt
    "probe.ended",  # a confirm probe answered, before its receipt
    "run.ended",  # the body is over, before the run's own outcome is written
    "run.returns",  # its outcome is durable, before who asked for it has it
)

# The same of `gc`, between any two changes to files; between any two transactions it reaches the points of commits.
SWEEP_POINTS = (
    "sweep.folders",  # folders of removed runs are gone, before the first slice of their journals
    "sweep.trashed",  # a blob is in the trash, before it is looked at again
    "sweep.dated",  # it is there to stay for its time
    "sweep.restored",  # a blob is back in its place, or was there, before the one in the trash goes
    "sweep.emptied",  # a blob is gone from the trash
    "sweep.cleared",  # a temporary file or work folder is gone
)

BUCKET_POINTS = ("sweep.doomed",)  # in a bucket: it is written that a blob is about to go, before it goes

# The same of putting files back as they were before an attempt, which no flow does by itself.
RESTORE_POINTS = (
    "restore.saved",  # what will give way is durable and recorded, before any file is touched
    "restore.staged",  # the content of one file is synced, before it has its name
    "restore.written",  # one file is back, before the next
)

# The same of bringing the work of a handoff into a clone.
APPLY_POINTS = (
    "apply.staged",  # the content of one file is synced beside its place; no file is touched before all are
    "apply.noted",  # what gives way is kept beside, and how to undo it is durable, before any file is touched
    "apply.written",  # one file is in its place, or gone from it, before the next
)
UNDO_POINTS = ("apply.undone",)  # one file is as it was before an apply that was interrupted, before the next

# The same of telling people.
NOTIFY_POINTS = (
    "notify.held",  # a target is held, before it is told anything
    "notify.sent",  # it took a message, before that is noted
)

# The same of what is done to keys and to targets of notifications, which are not in the ledger.
ACT_POINTS = (
    "act.begun",  # it is on record that somebody is about to do it
    "act.ended",  # it is done, before that is on record
)

# The same of moving a home to another place.
MOVE_POINTS = (
    "move.files",  # what lies beside the ledger is copied
    "move.keys",  # so are the keys
    "move.blob",  # one blob is durable there
    "move.rows",  # so are some rows of a table
    "move.numbers",  # all rows are, and what is counted goes on there
    "move.sealed",  # all is proven, and nobody writes to one tenant of the old home any more
    "move.published",  # one tenant of the new home has its name
)

# The same of a backup, and of restoring one.
BACKUP_POINTS = (
    "backup.copied",  # a database as it was at one moment lies beside the file, before it is in it
    "backup.added",  # one file of the home is in it
    "backup.synced",  # it is whole and durable, before it has its name
    "backup.named",  # it has its name, before the folder is synced
)
HOME_POINTS = (
    "home.staged",  # one file of the home lies beside its place
    "home.synced",  # all of them do, proven and durable, before the home has its name
    "home.named",  # it has its name, before the folder is synced
)

armed: Callable[[str], None] | None = None


def arm(hook: Callable[[str], None] | None) -> None:
    """Call `hook(name)` at every point from now on; None switches all of them off."""
    global armed
    armed = hook


def reached(point: str) -> None:
    """Come to a point. Where each look counts, as in a step, `armed` is asked in place."""
    if armed:
        armed(point)


def kill_at(name: str, nth: int) -> Callable[[str], None]:
    """A hook that kills this process the nth time `name` is reached."""
    seen: Counter[str] = Counter()

    def hook(reached: str) -> None:
        seen[reached] += 1
        if reached == name and seen[reached] == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


def log_to(path: str) -> Callable[[str], None]:
    """A hook that appends each point's name to a file."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def hook(reached: str) -> None:
        os.write(log, f"{reached}\n".encode())

    return hook


def arm_from_environment() -> None:
    """Arm what the environment asks for; called once, at import."""
    wanted = os.environ.get("OUTLAST_FAILPOINT", "")
    log = os.environ.get("OUTLAST_FAILPOINT_LOG", "")
    if wanted:
        name, _, nth = wanted.partition(":")
        arm(kill_at(name, int(nth or 1)))
    elif log:
        arm(log_to(log))


arm_from_environment()
