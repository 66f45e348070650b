"""What the files and the repository were when somebody looked, as a handoff is bound to it. Frozen values only.

Looking at a file is `snapshot.py`, where the files are now is `root.py`.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

BoundMode = Literal["file", "exec", "link", "absent", "special"]
Relation = Literal["none", "same", "ahead", "apart", "unknown"]  # of the commit now to the bound one


class Bound(Struct, frozen=True):
    """One file as it was found. Links are not followed: a link's content is the text of its target."""

    mode: BoundMode
    digest: str = ""  # SHA-256 of the bytes
    blob: str = ""  # git's blob id of the text with LF line ends, so that line ends do not lie; "" unless it is text
    size: int = 0
    kept: str = ""  # the blob that holds the content
    why: str = ""  # why there is none: too_large, over_budget, secret, unreadable, special
    leads: str = ""  # of a link: where it leads to in the end, and what is there

    def same(self, other: Bound) -> bool:
        """Whether both are the same file: the same kind, and the same content but for line ends."""
        if self.mode != other.mode or (self.why == "unreadable") != (other.why == "unreadable"):
            return False
        return self.digest == other.digest or (bool(self.blob) and self.blob == other.blob)

    @property
    def word(self) -> str:
        """The file in short, as reasons say it: `absent`, or its kind and digest."""
        if self.mode == "absent":
            return "absent"
        return f"{self.mode} {(self.blob or self.digest)[:12] or self.why}"


ABSENT = Bound("absent")


class Binding(Struct, frozen=True, kw_only=True):
    """What the files and the repository were when somebody looked."""

    root: str
    host: str
    files: dict[str, Bound] = field(default_factory=dict)  # by path from the root; of a folder all that git would add
    folders: tuple[str, ...] = ()  # the targets that are folders
    environment: dict[str, Bound] = field(default_factory=dict)
    musts: dict[str, Bound] = field(default_factory=dict)  # the files that musts are about; never their content
    commit: str = ""  # "" outside of git, or before the first commit
    branch: str = ""  # "" when detached
    dirty: str = ""  # digest of the other files that differ from the commit; "" when there are none
    dirty_files: tuple[str, ...] = ()  # their names, as many as are kept
    untracked: tuple[str, ...] = ()  # other files that git does not know, as many: they stay behind
    patch: str = ""  # the blob that holds the uncommitted changes
    patch_why: str = ""  # why there is none though something is uncommitted
    prefix: str = ""  # where the root is in its repository; "" at its top, and outside of git
    unkept: dict[str, str] = field(default_factory=dict)  # of musts to keep that did not hold, by key: what was wrong
    known_by: tuple[str, ...] = ()  # the first commits and the remotes of its repository: alike in every clone

    @property
    def stays_behind(self) -> str:
        """The new files that no clone will get from the handoff, and what to do about it; "" without any."""
        names = [path if path.isprintable() else repr(path) for path in self.untracked]
        more = [f"and {len(names) - 5} more"] if len(names) > 5 else []
        advice = "git does not know them: `git add` them, or name them as files"
        return f"{', '.join(names[:5] + more)} ({advice})" if names else ""

    @property
    def blobs(self) -> tuple[str, ...]:
        """Every blob that this refers to, each once."""
        kept = {bound.kept for bound in (*self.files.values(), *self.environment.values())}
        return tuple(sorted((kept | {self.patch}) - {""}))
