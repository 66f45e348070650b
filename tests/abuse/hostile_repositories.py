"""Repositories that try to run a program, to have something outside read, or to keep whoever looks waiting for ever.

Each takes a sound repository, in which work was handed over, and makes it hostile.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

SECRET = "OUTSIDE-SECRET"
GIT = ("git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "init.defaultBranch=main")
PLAIN = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def git(folder: Path, *words: str) -> str:
    done = subprocess.run([*GIT, *words], cwd=folder, env=os.environ | PLAIN, check=True, capture_output=True)
    return done.stdout.decode().strip()


@dataclass
class World:
    """A repository, somebody's private one beside it, and a program that leaves a mark when it runs."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)
    start: str = "."  # the folder of the repository that work begins in

    def __post_init__(self) -> None:
        self.root, self.outside = self.folder / "repo", self.folder / "outside"
        self.ran, self.evil = self.folder / "ran", self.folder / "evil"
        self.git = self.root / ".git"
        self.evil.write_text(f'#!/bin/sh\ntouch "{self.ran}"\ncat\n')
        self.evil.chmod(0o755)
        for folder, names in ((self.root, ("app.py", "lib/tool.py")), (self.outside, (f"{SECRET}.py",))):
            for name in names:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text("x = 1\n" if folder == self.root else f"{SECRET}\n")
            git(folder, "init", "-q", ".")
            git(folder, "add", ".")
            git(folder, "commit", "-q", "-m", "first" if folder == self.root else SECRET)
        git(self.outside, "checkout", "-q", "-b", SECRET)
        (self.root / "app.py").write_text("x = 2\n")

    def config(self, text: str, file: str = "config") -> None:
        with (self.git / file).open("a") as config:
            config.write(f"\n{text}\n")

    def filtered(self) -> str:
        """Settings with a filter for every Python file, named by the repository's attributes."""
        (self.root / ".gitattributes").write_text("*.py filter=evil diff=evil\n")
        return f'[filter "evil"]\n\tclean = {self.evil}\n\tsmudge = {self.evil}\n\trequired = true\n'

    def pipe(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        os.mkfifo(path)

    def link(self, path: Path, to: Path | str) -> None:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        path.symlink_to(to)

    def copied(self, name: str, more: str = "") -> None:
        """Its git folder once more, inside of itself."""
        ours = self.folder / "copy"
        shutil.copytree(self.git, ours)
        ours.rename(self.git / name)
        with (self.git / name / "config").open("a") as config:
            config.write(more)


Made = Callable[[World], object]
BELIEVED, REFUSED, EITHER = "believed", "refused", "either"
HOSTILE: dict[str, tuple[str, Made]] = {}


def hostile(believed: str) -> Callable[[Made], Made]:
    """Whether git may be asked about it all the same, since nothing of it is used."""

    def kept(made: Made) -> Made:
        HOSTILE[made.__name__] = (believed, made)
        return made

    return kept


# -- programs in its settings ------------------------------------------------------------------------


@hostile(BELIEVED)
def filter_in_its_settings(world: World) -> None:
    world.config(world.filtered())


@hostile(BELIEVED)
def filter_in_settings_of_a_work_tree(world: World) -> None:
    world.config("[extensions]\n\tworktreeConfig = true")
    world.config(world.filtered(), "config.worktree")


@hostile(BELIEVED)
def filter_behind_lines_of_a_megabyte(world: World) -> None:
    world.config(f"# {'x' * (1 << 20)}\n[x]\n\ty = {'y' * (1 << 20)}\n{world.filtered()}")


@hostile(BELIEVED)
def filter_in_an_included_file_of_its_own(world: World) -> None:
    (world.git / "more").write_text(world.filtered())
    world.config("[include]\n\tpath = more")


@hostile(BELIEVED)
def filter_with_a_name_that_ends_a_setting(world: World) -> None:
    world.filtered()
    (world.root / ".gitattributes").write_text("*.py filter=a=b\n")
    world.config(f'[filter "a=b"]\n\tclean = {world.evil}\n\tprocess = {world.evil}\n')


@hostile(BELIEVED)
def attributes_file_outside(world: World) -> None:
    (world.outside / "attributes").write_text("*.py filter=evil\n")
    world.config(world.filtered())
    (world.root / ".gitattributes").unlink()
    world.config(f"[core]\n\tattributesFile = {world.outside}/attributes\n\texcludesFile = {world.outside}/shadow")


@hostile(BELIEVED)
def attributes_and_ignores_that_are_pipes(world: World) -> None:
    world.pipe(world.folder / "pipe")
    world.config(f"[core]\n\tattributesFile = {world.folder}/pipe\n\texcludesFile = {world.folder}/pipe")


@hostile(BELIEVED)
def external_diff_and_text_conversion(world: World) -> None:
    world.filtered()
    (world.root / ".gitattributes").write_text("*.py diff=evil merge=evil\n")
    world.config(f'[diff]\n\texternal = {world.evil}\n[diff "evil"]\n\tcommand = {world.evil}\n')
    world.config(f'[diff "evil"]\n\ttextconv = {world.evil}\n[merge "evil"]\n\tdriver = {world.evil}\n')


@hostile(BELIEVED)
def hooks_of_its_own(world: World) -> None:
    folder = world.root / "scripts"
    folder.mkdir()
    for name in ("post-index-change", "post-checkout", "fsmonitor-watchman", "reference-transaction"):
        shutil.copy(world.evil, folder / name)
        shutil.copy(world.evil, world.git / "hooks" / name)
    world.config(f"[core]\n\thooksPath = {folder}\n")


@hostile(BELIEVED)
def file_monitor(world: World) -> None:
    world.config(f"[core]\n\tfsmonitor = {world.evil}\n\tuntrackedCache = true\n")


@hostile(BELIEVED)
def programs_for_people_and_servers(world: World) -> None:
    names = ("pager", "editor", "askPass", "sshCommand", "gitProxy", "alternateRefsCommand")
    world.config("[core]\n" + "".join(f"\t{name} = {world.evil}\n" for name in names))
    world.config(f"[gpg]\n\tprogram = {world.evil}\n[credential]\n\thelper = !{world.evil}\n[commit]\n\tgpgSign = true")
    world.config(f"[alias]\n\tstatus = !{world.evil}\n\tls-files = !{world.evil}\n\tdiff = !{world.evil}\n")


@hostile(BELIEVED)
def objects_that_a_server_would_have(world: World) -> None:
    url = f"ext::{world.evil}"
    world.config('[extensions]\n\tpartialClone = origin\n[remote "origin"]\n\turl = x:y\n\tpromisor = true')
    world.config(f'[url "{url}"]\n\tinsteadOf = x:\n[protocol "ext"]\n\tallow = always\n')
    blob = git(world.root, "rev-parse", "HEAD:app.py")
    (world.git / "objects" / blob[:2] / blob[2:]).unlink()


@hostile(BELIEVED)
def submodule_with_settings_of_its_own(world: World) -> None:
    git(world.root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(world.outside), "sub")
    git(world.root, "commit", "-q", "-m", "sub")
    settings = world.filtered() + f"[core]\n\tfsmonitor = {world.evil}\n"
    world.config(settings, "modules/sub/config")
    (world.root / "sub" / ".gitattributes").write_text("*.py filter=evil\n")
    (world.root / "sub" / f"{SECRET}.py").write_text("edited\n")


@hostile(BELIEVED)
def bare_repository_in_a_folder_of_the_tree(world: World) -> None:
    git(world.root, "clone", "-q", "--bare", ".", "bare")
    with (world.root / "bare" / "config").open("a") as config:
        config.write(f"[core]\n\tbare = false\n\tworktree = ..\n\tfsmonitor = {world.evil}\n{world.filtered()}")
    world.start = "bare"


# -- ways out ----------------------------------------------------------------------------------------


@hostile(REFUSED)
def settings_that_another_process_reads_differently(world: World) -> None:
    """To us it is the folder `python`, to git the folder `git`, each named after who reads."""
    evil = world.filtered()
    names = {Path("/proc/self/comm").read_text().strip(), "python", "python3", "pytest"}
    for name in names:
        world.copied(name)
    world.copied("git", evil)
    world.link(world.git / "commondir", "/proc/self/comm")


@hostile(REFUSED)
def way_to_the_system_by_a_link_of_its_own(world: World) -> None:
    world.link(world.git / "inner", "/proc/self/root")
    world.link(world.git / "info", "inner/etc")


@hostile(REFUSED)
def settings_that_are_a_link_out(world: World) -> None:
    shutil.copy(world.git / "config", world.outside / "config")
    with (world.outside / "config").open("a") as config:
        config.write(world.filtered())
    world.link(world.git / "config", world.outside / "config")


@hostile(REFUSED)
def git_folder_that_is_a_link_out(world: World) -> None:
    world.link(world.git, world.outside / ".git")


@hostile(REFUSED)
def git_file_that_points_at_a_private_repository(world: World) -> None:
    shutil.rmtree(world.git)
    world.git.write_text(f"gitdir: {world.outside}/.git\n")


@hostile(REFUSED)
def git_file_that_points_at_a_private_work_tree(world: World) -> None:
    git(world.outside, "worktree", "add", "-q", "-b", "w", str(world.folder / "private"))
    shutil.rmtree(world.git)
    world.git.write_text(f"gitdir: {world.outside}/.git/worktrees/private\n")


@hostile(REFUSED)
def git_files_that_point_at_each_other(world: World) -> None:
    shutil.rmtree(world.git)
    world.git.write_text("gitdir: other\n")
    (world.root / "other").write_text("gitdir: .git\n")


@hostile(REFUSED)
def links_in_a_circle(world: World) -> None:
    world.link(world.git / "config", "packed-refs")
    world.link(world.git / "packed-refs", "config")


@hostile(REFUSED)
def shared_folder_that_is_a_private_repository(world: World) -> None:
    (world.git / "commondir").write_text(f"{world.outside}/.git\n")


@hostile(REFUSED)
def object_store_outside(world: World) -> None:
    (world.git / "objects" / "info" / "alternates").write_text(f"{world.outside}/.git/objects\n")
    (world.git / "refs" / "heads" / "main").write_text(git(world.outside, "rev-parse", "HEAD") + "\n")


@hostile(REFUSED)
def object_store_that_is_a_link_out(world: World) -> None:
    world.link(world.git / "objects", world.outside / ".git" / "objects")


@hostile(REFUSED)
def ref_that_is_a_link_out(world: World) -> None:
    world.link(world.git / "refs" / "heads" / "main", world.outside / ".git" / "refs" / "heads" / "main")


@hostile(REFUSED)
def head_that_never_ends(world: World) -> None:
    world.link(world.git / "HEAD", "/dev/zero")


@hostile(REFUSED)
def settings_that_include_the_systems_users(world: World) -> None:
    world.config("[include]\n\tpath = /etc/passwd")


@hostile(REFUSED)
def settings_that_include_what_includes(world: World) -> None:
    (world.git / "one").write_text(f"[include]\n\tpath = {world.outside}/config\n")
    (world.outside / "config").write_text(world.filtered())
    world.config("[include]\n\tpath = one")


@hostile(BELIEVED)
def work_tree_that_is_a_private_folder(world: World) -> None:
    world.config(f"[core]\n\tworktree = {world.outside}")


@hostile(REFUSED)
def repository_of_another_user(world: World) -> None:
    world.config(world.filtered())
    for path in (world.root, *world.root.rglob("*")):
        if ".outlast" not in path.parts:
            os.chown(path, 54321, 54321, follow_symlinks=False)


# -- whoever opens it waits --------------------------------------------------------------------------


@hostile(REFUSED)
def settings_that_are_a_pipe(world: World) -> None:
    world.pipe(world.git / "config")


@hostile(REFUSED)
def head_that_is_a_pipe(world: World) -> None:
    world.pipe(world.git / "HEAD")


@hostile(REFUSED)
def index_and_ref_that_are_pipes(world: World) -> None:
    world.pipe(world.git / "index")
    world.pipe(world.git / "refs" / "heads" / "main")


@hostile(REFUSED)
def settings_that_include_a_pipe(world: World) -> None:
    world.pipe(world.root / "pipe")
    world.config("[include]\n\tpath = ../pipe")


@hostile(REFUSED)
def shared_folder_named_by_a_pipe(world: World) -> None:
    world.pipe(world.git / "commondir")


@hostile(EITHER)
def ignores_in_the_tree_that_are_a_pipe(world: World) -> None:
    world.pipe(world.root / "lib" / ".gitignore")


@hostile(EITHER)
def repository_in_the_tree_whose_head_is_a_pipe(world: World) -> None:
    git(world.root, "init", "-q", "nested")
    world.pipe(world.root / "nested" / ".git" / "HEAD")


@hostile(BELIEVED)
def locks_that_somebody_left(world: World) -> None:
    for name in ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock", "shallow.lock"):
        (world.git / name).write_text("")


@hostile(BELIEVED)
def a_hundred_thousand_packed_refs(world: World) -> None:
    head = git(world.root, "rev-parse", "HEAD")
    lines = (f"{head} refs/heads/{number:06}\n" for number in range(100_000))
    (world.git / "packed-refs").write_text("# pack-refs with: peeled fully-peeled sorted \n" + "".join(lines))
