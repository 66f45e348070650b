"""The places where people stand, as plain values: files, commits and branches. What is done to them is done for real by
`rig.py`; what it means is for `oracle.py` to say.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Commit:
    number: int
    files: Mapping[str, str]
    before: "Commit | None" = None

    @property
    def line(self) -> set[int]:
        """Itself and all before it."""
        return {self.number} | (self.before.line if self.before else set())


@dataclass
class Place:
    """A folder that somebody stands in."""

    name: str
    work: str  # the repository that it is of, by whatever makes two the same; "" outside of git
    files: dict[str, str]
    head: Commit | None = None
    branch: str = ""
    branches: dict[str, Commit] = field(default_factory=dict)
    known: set[int] = field(default_factory=set)  # the commits that git has here
    shallow: bool = False

    @property
    def line(self) -> set[int]:
        """The commits that are seen to come before what is checked out, and that one."""
        return self.head.line & self.known if self.head else set()

    def others(self, mine: set[str]) -> dict[str, str]:
        """What differs from the commit, but for some files: line ends count for whether, and not for how."""
        if self.head is None:
            return {}
        there, was = self.files, self.head.files
        return {path: text_of(there.get(path)) for path in {*there, *was} - mine if there.get(path) != was.get(path)}

    def as_it_is(self) -> "Place":
        """The same, which does not change any more."""
        return replace(self, files=dict(self.files), branches=dict(self.branches), known=set(self.known))

    # -- what is done here -----------------------------------------------------------------------

    def edit(self, path: str, content: str | None) -> None:
        self.files.pop(path, None)
        if content is not None:
            self.files[path] = content

    def rename(self, path: str, to: str) -> None:
        self.files[to] = self.files.pop(path)

    def commit(self, number: int) -> None:
        self.head = Commit(number, dict(self.files), self.head)
        self.branches[self.branch] = self.head
        self.known.add(number)

    def switch(self, branch: str) -> None:
        """To another branch, made here if there is none; what is not committed is committed before."""
        assert self.head is not None
        self.head = self.branches.setdefault(branch, self.head)
        self.branch, self.files = branch, dict(self.head.files)

    def clone(self, name: str, *, shallow: bool = False) -> "Place":
        """Another folder with what is committed here."""
        assert self.head is not None
        known = {self.head.number} if shallow else set(self.head.line)
        there = replace(self, name=name, files=dict(self.head.files), known=known, shallow=shallow)
        there.branches = {self.branch: self.head}
        return there

    def worktree(self, name: str, branch: str) -> "Place":
        """A linked work tree, on a branch of its own: the commits are the same ones."""
        assert self.head is not None
        there = replace(self, name=name, files=dict(self.head.files), branch=branch)
        self.branches[branch] = self.head
        return there


def text_of(content: str | None) -> str:
    """A file's content as it counts; "" where there is none."""
    return "" if content is None else content.replace("\r\n", "\n")
