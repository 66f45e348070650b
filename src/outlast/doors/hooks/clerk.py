"""The clerk: the process that stores what hooks noted, when nobody waits for it any more.

`python -m outlast.doors.hooks.clerk HOME`, started by a hook in a session of its own. It lives for two minutes at
most.
"""

from __future__ import annotations

import os
import signal
import sys

from outlast.doors.hooks import spool
from outlast.doors.hooks.leave import drain
from outlast.doors.hooks.place import note, words_of

LIFE_SECONDS = 120


def main(home: str) -> None:
    """Take in all events that wait, unless another clerk does."""
    signal.alarm(LIFE_SECONDS)  # it kills: what is not stored then stays in the spool
    os.closerange(3, 1024)  # what the agent had open is none of ours
    try:
        with spool.alone(home, LIFE_SECONDS) as granted:
            if granted and spool.waiting(home):
                drain(home)
    except Exception as error:
        note(home, f"the clerk: {words_of(error)}")


if __name__ == "__main__":
    main(sys.argv[1])
