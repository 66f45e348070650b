"""Makes the home that is kept of a version of the schema: `python tests/care/homes/make.py 1`, once, at its release.

It has runs of every ending, an effect in doubt, interrupts, handoffs, a workspace, sessions and tasks; made by real
commands, in a folder of no name. What is kept is never made again: later programs have to open what this one wrote.
"""

import gzip
import io
import os
import shutil
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = Path("/tmp/outlast-kept-home")
sys.path.insert(0, str(HERE.parents[2]))


def packed(folder: Path) -> bytes:
    """All files of the folder, the same bytes for the same files."""
    made = io.BytesIO()
    with gzip.GzipFile(fileobj=made, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
        for path in sorted(path for path in folder.rglob("*") if "__pycache__" not in path.parts):
            tar.add(path, str(path.relative_to(folder)), recursive=False, filter=_plain)
    return made.getvalue()


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def main(version: str) -> None:
    from tests.abuse.damaged_home import build

    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    os.chdir(FOLDER)  # what handoffs look at is here
    build(FOLDER)
    (HERE / f"v{version}.tar.gz").write_bytes(packed(FOLDER))
    shutil.rmtree(FOLDER)


if __name__ == "__main__":
    main(sys.argv[1])
