"""Everything below a folder, to be compared before and after: nothing was made, nothing was changed."""

import os
import stat
from hashlib import sha256
from pathlib import Path


def tree(top: Path) -> dict[str, tuple[str, int, str]]:
    """Each name with its kind, its mode, and what it holds: a digest, or where a link leads."""
    found = {}
    for at, folders, names in os.walk(top):
        for name in [*folders, *names]:
            path = Path(at, name)
            found[str(path.relative_to(top))] = _facts(path)
    return found


def _facts(path: Path) -> tuple[str, int, str]:
    seen = path.lstat()
    kind = stat.filemode(seen.st_mode)[0]
    match kind:
        case "-":
            holds = sha256(path.read_bytes()).hexdigest()
        case "l":
            holds = os.readlink(path)
        case _:
            holds = ""
    return kind, stat.S_IMODE(seen.st_mode), holds
