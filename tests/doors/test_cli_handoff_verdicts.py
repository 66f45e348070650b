"""One verdict, whoever asks: Python and the command line say the same, word for word and reason for reason."""

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlast import Outlast
from outlast.operations.reading import in_order

from .repository import Repository

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

ANCHOR = "fix limit"
_names = map(str, itertools.count())


def _commit(repo: Repository) -> None:
    repo.write("x", f"new-{next(_names)}.txt")
    repo.git("add", ".")
    repo.git("commit", "-q", "-m", "more")


CHANGES: dict[str, Callable[[Repository], object]] = {
    "edited": lambda repo: repo.write(f"limit = {next(_names)}\n"),
    "put back": lambda repo: repo.git("checkout", "-q", "HEAD", "--", "."),
    "deleted": lambda repo: (repo.folder / "app.py").unlink(missing_ok=True),
    "another file": lambda repo: repo.write(next(_names), "lib/tool.py"),
    "commit": _commit,
    "branch": lambda repo: repo.git("switch", "-q", "-c", f"b{next(_names)}"),
    "stored again": lambda repo: repo.store(ANCHOR, "--supersedes", repo("show", ANCHOR, "--json").json["id"]),
    "claimed": lambda repo: repo("claim", ANCHOR, "--take", "--why", "mine", "--json"),
    "released": lambda repo: repo("settle", ANCHOR, "released", "--json"),
    "checked": lambda repo: repo("verify", ANCHOR, "--json"),
}


@pytest.fixture
def repo(cli: "Cli") -> Repository:
    return Repository(cli)


def by_command(repo: Repository, *words: str) -> Any:
    """What a command tells; the options that its advice carries, so that it can be pasted anywhere, left out."""
    told = repo("recover", ANCHOR, *words, "--json").json
    here = f" --home {repo.folder / '.outlast'}", f" --repo {repo.folder}"
    for reason in told["reasons"]:
        for options in here:
            reason["advice"] = reason["advice"].replace(options, "")
    return told["verdict"], told["reasons"]


def by_python(repo: Repository, **how: Any) -> Any:
    with Outlast(repo.folder / ".outlast") as outlast:
        found = in_order(outlast.handoff.recover(ANCHOR, repo_root=str(repo.folder), **how))
    told = msgspec.json.decode(msgspec.json.encode(found))
    return told["verdict"], told["reasons"]


@given(steps=st.lists(st.sampled_from(sorted(CHANGES)), min_size=1, max_size=4))
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
def test_python_and_the_command_line_give_one_verdict(repo: Repository, steps: list[str]) -> None:
    repo.store(ANCHOR)
    for step in steps:
        CHANGES[step](repo)
    assert by_command(repo) == by_python(repo)
    assert by_command(repo, "--run-checks") == by_python(repo, run_checks=True)
