"""What became of a handoff's work is shown, and it is brought to real clones: all of it or nothing."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial as with_options
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from outlast import failpoints
from outlast.errors import DiskFull, HandoffInvalid, IntegrityBroken, NotApplicable, OtherPlace
from outlast.files.place import STAGING
from outlast.files.snapshot import Binding, Bound
from outlast.handoffs.binding import bind
from outlast.handoffs.carry import apply
from outlast.handoffs.difference import Applied, Difference, diff, diff_revisions
from outlast.handoffs.handoff import Contract, Handoff, Lint
from outlast.handoffs.observer import observe
from outlast.home.home import Home
from outlast.runs.live import Executor
from outlast.testing.crashes import Tell, in_child
from outlast.values.codec import digest, encode, jsonable

from ..kit.place import Place

HOSTILE = ("sp ace 🙂.txt", "new\nline.txt", "qu\"o'te [x]*.txt", "-rf")
IDENTITY = ("-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "init.defaultBranch=main")
Tree = dict[str, tuple[str, bytes]]


def git(folder: Path, *command: str) -> str:
    """Run git in a folder with nobody's own settings."""
    alone = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    alone |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    done = subprocess.run(["git", *IDENTITY, *command], cwd=folder, env=alone, check=True, capture_output=True)
    return done.stdout.decode()


def write(root: Path, path: str, content: str | bytes, bits: int = 0o644) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    file.chmod(bits)


def tree(root: Path) -> Tree:
    """Every file and link below a folder but git's own: what it is, and its content."""
    found: Tree = {}
    for folder, folders, files in os.walk(root):
        if ".git" in folders:
            folders.remove(".git")
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink():
                found[str(path.relative_to(root))] = ("link", os.fsencode(os.readlink(path)))
            elif path.is_file():
                kind = "exec" if path.stat().st_mode & 0o100 else "file"
                found[str(path.relative_to(root))] = (kind, path.read_bytes())
    return found


@pytest.fixture
def runtime(place: Place) -> Executor:
    return place.outlast._executor


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit, to be copied."""
    root = tmp_path_factory.mktemp("template")
    git(root, "init", "-q", "--template=")
    write(root, "src/main.py", "one\ntwo\nthree\n")
    write(root, "src/gone.py", "will go\n")
    write(root, "tool", "#!/bin/sh\n")
    write(root, "data.bin", b"\0\1\2")
    write(root, "other.txt", "a\nb\nc\n")
    write(root, "other.bin", b"\0other")
    write(root, "unrelated.txt", "as it was\n")
    for name in HOSTILE:
        write(root, f"names/{name}", f"{name} before\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return root


@pytest.fixture
def source(template: Path, tmp_path: Path) -> Path:
    """A repository with one commit."""
    return shutil.copytree(template, tmp_path / "source", symlinks=True)


TARGETS = ("src/main.py", "src/gone.py", "src/new/made.py", "tool", "data.bin", "link", "names")


def work(root: Path) -> None:
    """Change targets in every way, and other tracked files too."""
    write(root, "src/main.py", "one\n2\nthree\n")
    (root / "src/gone.py").unlink()
    write(root, "src/new/made.py", "made\n")
    write(root, "tool", "#!/bin/sh\n", 0o755)
    write(root, "data.bin", bytes(range(256)) * 50)
    os.symlink("src/main.py", root / "link")
    for name in HOSTILE:
        write(root, f"names/{name}", f"{name} after\n")
    write(root, "other.txt", "a\nB\nc\n")
    write(root, "other.bin", b"\0another")


def clone_of(source: Path, name: str = "clone", *options: str) -> Path:
    clone = source.parent / name
    git(source.parent, "clone", "-q", "--template=", *options, str(source), str(clone))
    return clone


def stored(home: Home, root: Path, *targets: str, revision: int = 1, **given: Any) -> Handoff:
    """A revision whose files were looked at in that folder."""
    contract = {"anchor": "task", "summary": "s", "handoff_text": "t", "target_files": targets or TARGETS, **given}
    binding = bind(home, Contract(**contract), root)
    return handoff(binding, revision=revision, **contract)


def handoff(binding: Binding | None, *, revision: int = 1, score: int = 100, **given: Any) -> Handoff:
    named = {"anchor": "task", "summary": "s", "handoff_text": "t"} | given
    facts = {"id": f"h{revision}", "scope": "default", "revision": revision, "actor": "local"}
    return Handoff(**named, **facts, stored_us=0, expires_us=1, lint=Lint(score), binding=binding)


def with_file(handoff: Handoff, path: str, bound: Bound) -> Handoff:
    assert handoff.binding
    return replace(handoff, binding=replace(handoff.binding, files={**handoff.binding.files, path: bound}))


def is_all_there(handoff: Handoff, root: Path) -> bool:
    """Whether everything that was bound is seen again."""
    assert handoff.binding
    now = observe(handoff, root).binding.files
    return {*handoff.binding.files} == {*now} and all(was.same(now[p]) for p, was in handoff.binding.files.items())


def actions(applied: Applied) -> dict[str, str]:
    return {file.path: file.action for file in applied.files}


def changes(difference: Difference) -> dict[str, str]:
    return {file.path: file.change for file in difference.files}


# -- diff: against the files now ---------------------------------------------------------------------


def test_nothing_changed_is_no_difference(runtime: Executor, source: Path) -> None:
    found = diff(runtime.home, stored(runtime.home, source), source)
    assert found.same
    assert found.as_text() == f"task: revision 1 against the files in {source}: nothing changed\n"


def test_a_difference_names_what_was_changed_created_and_removed_with_hunks(runtime: Executor, source: Path) -> None:
    kept = stored(runtime.home, source)
    work(source)
    found = diff(runtime.home, kept, source)
    assert changes(found) == {
        "data.bin": "changed",
        "link": "created",
        "src/gone.py": "removed",
        "src/main.py": "changed",
        "src/new/made.py": "created",
        "tool": "kind",
        **{f"names/{name}": "changed" for name in HOSTILE},
    }
    by_path = {file.path: file for file in found.files}
    hunks = "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    assert by_path["src/main.py"].text == f"--- src/main.py\n+++ src/main.py\n{hunks}"
    assert by_path["data.bin"].note == "no text: 3 bytes before, 12800 bytes after"
    assert by_path["src/gone.py"].after == "absent"
    assert by_path["src/new/made.py"].text.endswith("@@ -0,0 +1 @@\n+made\n")
    assert (by_path["tool"].before.split()[0], by_path["tool"].after.split()[0]) == ("file", "exec")
    assert hunks in found.as_text()
    assert jsonable(found)["files"][0]["path"] == "data.bin"


def test_other_line_ends_are_no_change_and_do_not_show_among_others(runtime: Executor, source: Path) -> None:
    kept = stored(runtime.home, source, "src/main.py", "other.txt")
    write(source, "src/main.py", "one\r\ntwo\r\nthree\r\n")
    write(source, "other.txt", "a\r\nb\r\nC\r\n")
    found = diff(runtime.home, kept, source)
    assert changes(found) == {"other.txt": "changed"}
    assert found.files[0].text.endswith(" a\n b\n-c\n+C\n")


def test_content_that_was_not_kept_is_said_to_be_missing(runtime: Executor, source: Path) -> None:
    write(source, "big.txt", "x" * (1 << 20) + "\n")
    kept = stored(runtime.home, source, "big.txt", "src/main.py")
    write(source, "big.txt", "small\n")
    write(source, "src/main.py", "y" * (2 << 20))
    big, small = diff(runtime.home, kept, source).files
    assert big.note == "the content was not kept: too large"
    assert small.note == "what is there now is not shown: it has 2097152 bytes"
    assert not big.text
    assert not small.text


def test_broken_kept_content_is_said_and_the_other_files_still_show(runtime: Executor, source: Path) -> None:
    kept = stored(runtime.home, source, "src/main.py", "other.txt")
    assert kept.binding
    runtime.home.blobs.path(kept.binding.files["src/main.py"].kept).write_bytes(b"forged")
    write(source, "src/main.py", "new\n")
    write(source, "other.txt", "new\n")
    other, broken = diff(runtime.home, kept, source).files
    assert "its content was changed" in broken.note
    assert not broken.text
    assert other.text


def test_declared_files_of_the_environment_are_compared_too(runtime: Executor, source: Path) -> None:
    kept = stored(runtime.home, source, "src/main.py", environment=("other.txt",))
    write(source, "other.txt", "new\n")
    (found,) = diff(runtime.home, kept, source).files
    assert (found.path, found.change, found.environment) == ("other.txt", "changed", True)


def test_an_unbound_handoff_has_nothing_to_compare_and_says_so(runtime: Executor, source: Path) -> None:
    found = diff(runtime.home, handoff(None), source)
    assert found.same
    assert "nobody looked" in found.notes[0]
    assert "nobody looked" in found.as_text()


def test_no_content_can_play_with_a_terminal(runtime: Executor, source: Path) -> None:
    kept = stored(runtime.home, source, "src/main.py", "names")
    write(source, "src/main.py", "\x1b[2Jboo\u202e\n")
    write(source, "names/new\nline.txt", "x\n")
    shown = diff(runtime.home, kept, source).as_text()
    assert "\\x1b[2Jboo\\u202e" in shown
    assert "\x1b" not in shown
    assert "changed: 'names/new\\nline.txt'" in shown


# -- diff: two revisions -----------------------------------------------------------------------------


def test_two_revisions_differ_by_fields_files_commit_branch_and_score(runtime: Executor, source: Path) -> None:
    first = stored(runtime.home, source, "src/main.py", next_action="do a", acceptance_checks=("make", {"run": "ls"}))
    write(source, "src/main.py", "one\n2\nthree\n")
    git(source, "switch", "-qc", "topic")
    git(source, "commit", "-qam", "second")
    changed = {"next_action": "do b", "acceptance_checks": ("make", {"run": "ls", "cwd": "src"}), "score": 60}
    write(source, "src/main.py", "only now\n")
    second = handoff(
        stored(runtime.home, source, "src/main.py").binding, revision=2, target_files=("src/main.py",), **changed
    )
    write(source, "src/main.py", "later, and no matter\n")
    found = diff_revisions(runtime.home, first, second)
    fields = {field.field: field for field in found.fields}
    assert {*fields} == {"next_action", "acceptance_checks", "commit", "branch", "score"}
    assert fields["next_action"].text.endswith(
        "-do a\n\\ No newline at end of file\n+do b\n\\ No newline at end of file\n"
    )
    assert fields["acceptance_checks"].added == ({"run": "ls", "cwd": "src"},)
    assert fields["acceptance_checks"].removed == ({"run": "ls"},)
    assert (fields["branch"].before, fields["branch"].after) == ("main", "topic")
    assert (fields["score"].before, fields["score"].after) == (100, 60)
    assert [(file.path, file.change) for file in found.files] == [("src/main.py", "changed")]
    assert "+only now\n" in found.files[0].text
    assert "  + ls (in src)\n  - ls\n" in found.as_text()
    assert encode(jsonable(found))


def test_a_packet_differs_by_its_keys_or_as_a_whole(runtime: Executor) -> None:
    def revision(packet: Any) -> Handoff:
        return handoff(None, execution_packet_v1=None if packet is None else msgspec.Raw(encode(packet)))

    def only_field(before: Any, after: Any) -> Any:
        (field,) = diff_revisions(runtime.home, revision(before), revision(after)).fields
        return field

    keys = only_field({"same": 1, "other": {"a": [1]}, "old": 1}, {"same": 1, "other": {"a": [2]}, "new": 1})
    assert (keys.added, keys.removed, keys.changed) == (("new",), ("old",), ("other",))
    assert only_field(None, {"a": 1}).added == ("a",)
    whole = only_field([1], [2])
    assert (whole.added, whole.removed, whole.changed) == ((), (), ())
    assert diff_revisions(runtime.home, revision({"a": 1}), revision({"a": 1})).same
    assert "execution_packet_v1: changed" in diff_revisions(runtime.home, revision([1]), revision([2])).as_text()


def test_a_list_in_another_order_is_changed_without_gain_or_loss(runtime: Executor) -> None:
    (field,) = diff_revisions(runtime.home, handoff(None, tags=("a", "b")), handoff(None, tags=("b", "a"))).fields
    assert (field.field, field.added, field.removed) == ("tags", (), ())


# -- apply -------------------------------------------------------------------------------------------


def test_a_fresh_clone_gets_everything_and_is_then_seen_as_bound(runtime: Executor, source: Path) -> None:
    work(source)
    kept, clone = stored(runtime.home, source), clone_of(source)
    applied = apply(runtime.home, kept, clone)
    assert applied.done
    assert not applied.hindrances
    assert actions(applied)["src/gone.py"] == "remove"
    assert set(applied.patch_files) == {"other.txt", "other.bin"}
    assert tree(clone) == tree(source)
    assert is_all_there(kept, clone)
    now = observe(kept, clone)
    assert (now.relation, now.binding.dirty) == ("same", kept.binding and kept.binding.dirty)
    assert applied.notes == ()
    assert "applied\n" in applied.as_text()


def test_a_clone_in_a_folder_with_a_hostile_name_works_too(runtime: Executor, source: Path) -> None:
    work(source)
    kept, clone = stored(runtime.home, source), clone_of(source, 'cl:o\\n"e\n🙂')
    apply(runtime.home, kept, clone)
    assert tree(clone) == tree(source)


def test_applying_again_finds_all_of_it_the_same_and_touches_nothing(runtime: Executor, source: Path) -> None:
    work(source)
    kept, clone = stored(runtime.home, source), clone_of(source)
    apply(runtime.home, kept, clone)
    stats = {path: os.lstat(clone / path).st_mtime_ns for path in tree(clone)}
    again = apply(runtime.home, kept, clone)
    assert set(actions(again).values()) == {"same"}
    assert again.done
    assert again.as_text() == f"task revision 1 in {clone}: nothing to do\nthe same already: {len(again.files)} files\n"
    assert {path: os.lstat(clone / path).st_mtime_ns for path in tree(clone)} == stats


def test_a_dry_run_says_what_it_would_do_and_touches_nothing(runtime: Executor, source: Path) -> None:
    work(source)
    kept, clone = stored(runtime.home, source), clone_of(source)
    write(clone, "src/main.py", "mine\n")
    before, objects = tree(clone), sorted((clone / ".git").rglob("*"))
    planned = apply(runtime.home, kept, clone, dry_run=True)
    assert not planned.done
    assert [file.path for file in planned.hindrances] == ["src/main.py"]
    assert actions(planned)["tool"] == "write"
    assert "same" not in planned.as_text()
    assert "not possible" in planned.as_text()
    assert "conflict: src/main.py" in planned.as_text()
    assert jsonable(planned)["files"]
    assert tree(clone) == before
    assert sorted((clone / ".git").rglob("*")) == objects


def test_a_checkout_with_other_line_ends_keeps_its_own(runtime: Executor, source: Path) -> None:
    work(source)
    kept, clone = stored(runtime.home, source), clone_of(source, "crlf", "-c", "core.autocrlf=true")
    assert b"\r\n" in (clone / "src/main.py").read_bytes()
    apply(runtime.home, kept, clone)
    assert (clone / "src/main.py").read_bytes() == b"one\r\n2\r\nthree\r\n"
    assert (clone / "other.txt").read_bytes() == b"a\r\nB\r\nc\r\n"
    assert (clone / "data.bin").read_bytes() == (source / "data.bin").read_bytes()
    assert is_all_there(kept, clone)
    back = stored(runtime.home, clone)
    plain = clone_of(source, "plain")
    apply(runtime.home, back, plain)
    assert (plain / "src/main.py").read_bytes() == b"one\n2\nthree\n"
    assert git(plain, "diff", "--numstat", "src/main.py") == "1\t1\tsrc/main.py\n"


def test_lost_files_are_put_back_where_they_were(runtime: Executor, source: Path) -> None:
    work(source)
    kept, was = stored(runtime.home, source), tree(source)
    shutil.rmtree(source / "src")
    (source / "data.bin").unlink()
    apply(runtime.home, kept, source)
    assert tree(source) == was


def test_files_outside_of_git_are_put_back_and_others_are_not_displaced(runtime: Executor, tmp_path: Path) -> None:
    root = tmp_path / "plain"
    write(root, "a.txt", "a\n")
    write(root, "b.txt", "b\n")
    kept = stored(runtime.home, root, "a.txt", "b.txt")
    (root / "a.txt").unlink()
    assert actions(apply(runtime.home, kept, root)) == {"a.txt": "write", "b.txt": "same"}
    write(root, "b.txt", "edited\n")
    with pytest.raises(NotApplicable, match=r"b\.txt"):
        apply(runtime.home, kept, root)


def test_applied_is_where_we_are_or_where_it_is_named(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, elsewhere = tmp_path / "plain", tmp_path / "elsewhere"
    write(root, "a.txt", "a\n")
    elsewhere.mkdir()
    handoffs = place.outlast.handoff
    handoffs.store("task", "s", "t", target_files=["a.txt"], repo_root=str(root))
    (root / "a.txt").unlink()
    monkeypatch.chdir(elsewhere)
    with pytest.raises(HandoffInvalid, match="not here"):
        handoffs.diff("task")
    with pytest.raises(OtherPlace):
        handoffs.apply("task")
    assert [*root.iterdir(), *elsewhere.iterdir()] == []
    assert handoffs.apply("task", repo_root=str(elsewhere)).root == str(elsewhere)
    assert (elsewhere / "a.txt").read_text() == "a\n"
    place.outlast._executor.home.project = None
    monkeypatch.chdir(root)
    assert handoffs.apply("task").root == str(root)
    assert (root / "a.txt").read_text() == "a\n"


def test_a_root_that_is_a_folder_of_its_repository_works_too(runtime: Executor, source: Path) -> None:
    work(source)
    kept, clone = stored(runtime.home, source / "src", "main.py", "gone.py"), clone_of(source)
    before = tree(clone)
    applied = apply(runtime.home, kept, clone / "src")
    assert is_all_there(kept, clone / "src")
    assert applied.patch_files == ()
    after = tree(clone)
    assert {path for path in {*before, *after} if before.get(path) != after.get(path)} == {
        "src/main.py",
        "src/gone.py",
    }
    (left,) = [note for note in applied.notes if "outside" in note]
    assert "'../other.bin', '../other.txt'" in left


def test_uncommitted_changes_below_the_root_come_along_and_those_beside_it_are_left(
    runtime: Executor, source: Path
) -> None:
    write(source, "src/gone.py", "changed\n")
    write(source, "src-2/new.py", "beside\n")
    write(source, "other.txt", "changed\n")
    git(source, "add", "-A")
    kept, clone = stored(runtime.home, source / "src", "main.py"), clone_of(source)
    write(clone, "other.txt", "of somebody here, and no hindrance\n")
    applied = apply(runtime.home, kept, clone / "src")
    assert applied.patch_files == ("gone.py",)
    assert (clone / "src/gone.py").read_text() == "changed\n"
    assert not (clone / "src-2").exists()
    assert (clone / "other.txt").read_text() == "of somebody here, and no hindrance\n"


@pytest.mark.parametrize("target", ["/etc", "..", "../../x", "src/../../x", "deep/..", ".git/config", "/nul"])
@pytest.mark.parametrize("how", ["bound", "patch"])
def test_a_link_that_leaves_the_root_is_not_made(runtime: Executor, source: Path, target: str, how: str) -> None:
    os.symlink("src" if how == "bound" else target, source / "evil")
    git(source, "add", "-A")
    kept, clone = stored(runtime.home, source, "evil" if how == "bound" else "src"), clone_of(source)
    if how == "bound":
        link = os.fsencode(target)
        kept = with_file(kept, "evil", Bound("link", digest(link), size=len(link), kept=runtime.home.blobs.put(link)))
    before = tree(clone)
    planned = apply(runtime.home, kept, clone, dry_run=True)
    assert [file.path for file in planned.hindrances] == ["evil"]
    with pytest.raises(NotApplicable, match=r"'evil': it is a link"):
        apply(runtime.home, kept, clone)
    assert tree(clone) == before


def test_no_filter_of_a_hostile_clone_runs(runtime: Executor, source: Path) -> None:
    work(source)
    kept, clone = stored(runtime.home, source), clone_of(source)
    bad = f"touch {clone.parent}/ran; cat"
    write(clone, ".gitattributes", "* filter=evil\n")
    for key in ("clean", "smudge"):
        git(clone, "config", f"filter.evil.{key}", bad)
    apply(runtime.home, kept, clone, dry_run=True)
    apply(runtime.home, kept, clone)
    assert (clone / "other.txt").read_text() == "a\nB\nc\n"
    assert not (clone.parent / "ran").exists()


def test_a_file_that_became_a_folder_and_a_folder_that_became_a_file(runtime: Executor, source: Path) -> None:
    kept_clone = clone_of(source)
    (source / "tool").unlink()
    write(source, "tool/inner", "inside\n")
    shutil.rmtree(source / "src")
    write(source, "src", "a file now\n")
    kept = stored(runtime.home, source, "tool/inner", "src", "src/main.py", "src/gone.py")
    kept = with_file(kept, "tool", Bound("absent"))
    apply(runtime.home, kept, kept_clone)
    assert (kept_clone / "tool/inner").read_text() == "inside\n"
    assert (kept_clone / "src").read_text() == "a file now\n"


def test_staged_and_removed_files_of_others_come_by_the_patch(runtime: Executor, source: Path) -> None:
    write(source, "staged new 🙂.txt", "new\n")
    (source / "unrelated.txt").unlink()
    os.symlink("tool", source / "unrelated.txt")
    (source / "other.bin").unlink()
    write(source, "tool", "#!/bin/sh\n", 0o755)
    git(source, "add", "-A")
    kept, clone = stored(runtime.home, source, "src/main.py"), clone_of(source)
    apply(runtime.home, kept, clone)
    assert tree(clone) == tree(source)


def test_files_of_a_submodule_are_targets_like_others_and_its_commit_is_left_alone(
    runtime: Executor, source: Path, template: Path
) -> None:
    local = ("-c", "protocol.file.allow=always")
    git(source, *local, "submodule", "--quiet", "add", str(template), "sub")
    git(source, "commit", "-qm", "with a submodule")
    clone = clone_of(source)
    git(clone, *local, "submodule", "--quiet", "update", "--init")
    write(source / "sub", "src/gone.py", "committed inside\n")
    git(source / "sub", "commit", "-qam", "inside")
    write(source / "sub", "src/main.py", "one\n2\nthree\n")
    applied = apply(runtime.home, stored(runtime.home, source, "sub/src/main.py"), clone)
    assert (clone / "sub/src/main.py").read_text() == "one\n2\nthree\n"
    assert (clone / "sub/src/gone.py").read_text() == "will go\n"
    assert any(note.endswith("not brought along: 'sub'") for note in applied.notes)
    write(clone, "sub/src/main.py", "mine\n")
    assert "'sub/src/main.py'" in refused(runtime.home, stored(runtime.home, source, "sub/src/main.py"), clone)


# -- what cannot be applied --------------------------------------------------------------------------


def refused(home: Home, kept: Handoff, root: Path) -> str:
    """The message, once it is sure that nothing was touched."""
    before = tree(root)
    with pytest.raises(NotApplicable) as raised:
        apply(home, kept, root)
    assert tree(root) == before
    return str(raised.value)


def test_own_changes_are_conflicts_that_are_all_named_and_nothing_is_touched(runtime: Executor, source: Path) -> None:
    work(source)
    kept, clone = stored(runtime.home, source), clone_of(source)
    write(clone, "src/main.py", "mine\n")
    write(clone, "src/gone.py", "mine\n")
    write(clone, "src/new/made.py", "mine\n")
    write(clone, "other.txt", "mine\n")
    message = refused(runtime.home, kept, clone)
    for path in ("src/main.py", "src/gone.py", "src/new/made.py", "other.txt"):
        assert repr(path) in message
    assert "'tool'" not in message
    assert "outlast handoff diff task" in message


def test_a_change_that_git_was_told_to_overlook_is_a_conflict(runtime: Executor, source: Path) -> None:
    work(source)
    kept, clone = stored(runtime.home, source), clone_of(source)
    git(clone, "update-index", "--assume-unchanged", "src/main.py", "other.txt")
    write(clone, "src/main.py", "mine\n")
    write(clone, "other.txt", "mine\n")
    message = refused(runtime.home, kept, clone)
    assert "'src/main.py'" in message
    assert "'other.txt'" in message


def test_a_file_that_differs_and_was_not_kept_is_refused(runtime: Executor, source: Path) -> None:
    write(source, "big.txt", "x" * (1 << 20) + "\n")
    kept, clone = stored(runtime.home, source, "src/main.py", "big.txt"), clone_of(source)
    assert "'big.txt': the content was not kept: too large" in refused(runtime.home, kept, clone)
    shutil.copy(source / "big.txt", clone / "big.txt")
    assert actions(apply(runtime.home, kept, clone))["big.txt"] == "same"


def test_a_patch_that_does_not_fit_is_a_conflict_naming_its_files(runtime: Executor, source: Path) -> None:
    clone = clone_of(source)
    work(source)
    write(clone, "other.txt", "entirely\nsomething\nelse\n")
    git(clone, "commit", "-qam", "away")
    kept = stored(runtime.home, source)
    message = refused(runtime.home, kept, clone)
    assert "'other.txt'" in message
    assert "'other.bin'" not in message
    assert actions(apply(runtime.home, kept, clone, dry_run=True))["other.bin"] == "write"


def test_a_patch_fits_a_commit_that_changed_elsewhere(runtime: Executor, source: Path) -> None:
    write(source, "other.txt", "".join(f"{n}\n" for n in range(30)))
    git(source, "commit", "-qam", "longer")
    clone = clone_of(source)
    write(clone, "other.txt", "".join(f"{n}\n" for n in range(30)) + "at the end\n")
    git(clone, "commit", "-qam", "elsewhere")
    write(source, "other.txt", "first\n" + "".join(f"{n}\n" for n in range(30)))
    apply(runtime.home, stored(runtime.home, source, "src/main.py"), clone)
    assert (clone / "other.txt").read_text() == "first\n" + "".join(f"{n}\n" for n in range(30)) + "at the end\n"


def test_a_patch_outside_of_git_is_a_conflict_naming_its_files(runtime: Executor, source: Path, tmp_path: Path) -> None:
    work(source)
    kept, bare = stored(runtime.home, source), tmp_path / "no git"
    bare.mkdir()
    message = refused(runtime.home, kept, bare)
    assert "'other.txt'" in message
    assert "'other.bin'" in message
    assert "'src/main.py'" not in message


def test_without_the_bound_commit_new_files_come_and_others_only_by_force(runtime: Executor, source: Path) -> None:
    clone = clone_of(source)
    write(source, "unrelated.txt", "moved on\n")
    git(source, "commit", "-qam", "only here")
    write(source, "src/new.py", "new\n")
    new = apply(runtime.home, stored(runtime.home, source, "src/new.py", "tool"), clone)
    assert actions(new) == {"src/new.py": "write", "tool": "same"}
    assert any("is not in this clone" in note for note in new.notes)
    write(source, "src/main.py", "one\n2\nthree\n")
    kept = stored(runtime.home, source, "src/main.py", "tool")
    assert "'src/main.py': maybe changed here by later commits" in refused(runtime.home, kept, clone)
    apply(runtime.home, kept, clone, force=True)
    assert (clone / "src/main.py").read_text() == "one\n2\nthree\n"


def test_what_later_commits_have_changed_gives_way_only_by_force_and_is_named(runtime: Executor, source: Path) -> None:
    clone = clone_of(source)
    work(source)
    write(clone, "src/main.py", "committed here\n")
    (clone / "src/gone.py").unlink()
    (clone / "tool").unlink()
    git(clone, "commit", "-qam", "since")
    kept = stored(runtime.home, source)
    (clone / "src/main.py").unlink()
    message = refused(runtime.home, kept, clone)
    assert "'src/main.py': changed here by later commits" in message
    assert "'tool': changed here by later commits" in message
    assert "--force" in message
    assert "'data.bin'" not in message
    git(clone, "checkout", "src/main.py")
    assert "'src/main.py': changed here by later commits" in refused(runtime.home, kept, clone)
    applied = apply(runtime.home, kept, clone, force=True)
    assert any("still in git: 'src/main.py', 'tool'" in note for note in applied.notes)
    assert is_all_there(kept, clone)


def test_force_displaces_nobodys_own_changes(runtime: Executor, source: Path) -> None:
    work(source)
    kept, clone = stored(runtime.home, source), clone_of(source)
    write(clone, "src/main.py", "mine\n")
    with pytest.raises(NotApplicable, match="changes of its own"):
        apply(runtime.home, kept, clone, force=True)
    assert (clone / "src/main.py").read_text() == "mine\n"


def test_a_clone_that_is_behind_or_went_on_elsewhere_gets_everything(runtime: Executor, source: Path) -> None:
    behind, apart = clone_of(source, "behind"), clone_of(source, "apart")
    write(source, "src/main.py", "committed\n")
    git(source, "commit", "-qam", "on")
    write(source, "src/main.py", "and more\n")
    kept = stored(runtime.home, source, "src/main.py")
    write(apart, "unrelated.txt", "elsewhere\n")
    git(apart, "commit", "-qam", "elsewhere")
    for clone in (behind, apart):
        git(clone, "fetch", "-q")
        assert actions(apply(runtime.home, kept, clone)) == {"src/main.py": "write"}


def test_work_that_was_committed_and_lost_is_put_back(runtime: Executor, source: Path) -> None:
    write(source, "src/main.py", "worked on\n")
    kept = stored(runtime.home, source, "src/main.py")
    git(source, "commit", "-qam", "the work")
    (source / "src/main.py").unlink()
    apply(runtime.home, kept, source)
    assert (source / "src/main.py").read_text() == "worked on\n"


def test_files_that_a_sparse_checkout_left_out_stay_in_a_full_clone(runtime: Executor, source: Path) -> None:
    full, left_out = clone_of(source), ["src/gone.py", "data.bin"]
    git(source, "update-index", "--skip-worktree", *left_out)
    for path in left_out:
        (source / path).unlink()
    write(source, "src/main.py", "worked on\n")
    write(source, "src/new.py", "new\n")
    applied = apply(runtime.home, stored(runtime.home, source, "."), full)
    assert {path for path, action in actions(applied).items() if action != "same"} == {"src/main.py", "src/new.py"}
    assert all((full / path).exists() for path in left_out)


def test_without_git_it_is_said_that_git_was_not_found(
    runtime: Executor, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(source)
    kept, clone = stored(runtime.home, source), clone_of(source)
    monkeypatch.setenv("PATH", str(source / "nothing"))
    planned = apply(runtime.home, kept, clone, dry_run=True)
    whys = {file.path: file.why for file in planned.hindrances}
    assert {*whys} >= {"src/main.py", "other.txt"}
    assert all("git was not found" in why for why in whys.values())
    assert all("git was not found" in note for note in planned.notes)
    assert planned.notes
    unkept = stored(runtime.home, source)
    assert unkept.binding
    assert unkept.binding.patch_why == "no_git"
    notes = apply(runtime.home, unkept, source, dry_run=True).notes
    assert notes == ("uncommitted changes of files that are no targets were not kept: git was not found",)


def test_what_is_not_brought_along_is_said(runtime: Executor, source: Path) -> None:
    write(source, "untracked.txt", "mine\n")
    write(source, "other.txt", "changed\n")
    git(source, "switch", "-qc", "topic")
    kept, clone = stored(runtime.home, source, "src/main.py"), clone_of(source, "main", "-b", "main")
    (untracked, branch) = sorted(apply(runtime.home, kept, clone, dry_run=True).notes, reverse=True)
    assert untracked.endswith("not brought along: 'untracked.txt'")
    assert branch == "the branch here is main, the work was on topic"
    assert kept.binding
    lost = replace(kept, binding=replace(kept.binding, patch="", patch_why="too_large"))
    notes = apply(runtime.home, lost, clone, dry_run=True).notes
    assert "uncommitted changes of files that are no targets were not kept: they were too large" in notes


def test_an_unbound_handoff_and_a_missing_folder_are_refused(runtime: Executor, source: Path) -> None:
    assert "nobody looked" in refused(runtime.home, handoff(None), source)
    assert "there is no folder" in refused(runtime.home, stored(runtime.home, source), source / "missing")
    assert "there is no folder" in refused(runtime.home, stored(runtime.home, source), source / "tool")


@pytest.mark.parametrize("of", ["file", "patch"])
def test_broken_content_is_found_before_anything_is_touched(runtime: Executor, source: Path, of: str) -> None:
    work(source)
    kept, clone = stored(runtime.home, source), clone_of(source)
    assert kept.binding
    blob = kept.binding.patch if of == "patch" else kept.binding.files["tool"].kept
    runtime.home.blobs.path(blob).write_bytes(b"forged")
    before = tree(clone)
    with pytest.raises(IntegrityBroken):
        apply(runtime.home, kept, clone)
    assert tree(clone) == before


def test_nothing_is_written_outside_through_links_or_where_git_and_outlast_live(
    runtime: Executor, source: Path, tmp_path: Path
) -> None:
    clone, outside = clone_of(source), tmp_path / "outside"
    outside.mkdir()
    os.symlink(outside, clone / "way-out")
    os.symlink(".git", clone / "inner")
    evil = runtime.home.blobs.put(b"#!/bin/sh\n")
    bound = Bound("exec", digest=evil, size=10, kept=evil)
    kept = stored(runtime.home, source, "src/main.py")
    paths = [
        "way-out/x",
        "../x",
        "/x",
        "inner/hooks/pre-commit",
        ".git/hooks/pre-commit",
        ".GIT/x",
        ".outlast/x",
        "a//b",
    ]
    paths += ["a\0b", "", ".", "x/../y", str(tmp_path / "x")]
    for path in paths:
        kept = with_file(kept, path, bound)
    message = refused(runtime.home, kept, clone)
    planned = actions(apply(runtime.home, kept, clone, dry_run=True))
    assert {path: planned[path] for path in paths} == dict.fromkeys(paths, "conflict")
    assert repr("way-out/x") in message
    assert not os.listdir(outside)
    assert not (clone / ".git/hooks/pre-commit").exists()


def test_a_link_inside_of_the_root_is_followed_to_the_file(runtime: Executor, source: Path) -> None:
    os.symlink("src", source / "alias")
    git(source, "add", "alias")
    git(source, "commit", "-qm", "alias")
    clone = clone_of(source)
    write(source, "src/main.py", "by alias\n")
    apply(runtime.home, stored(runtime.home, source, "alias/main.py"), clone)
    assert (clone / "src/main.py").read_text() == "by alias\n"
    assert (clone / "alias").is_symlink()


def test_two_names_of_one_file_are_written_once_or_are_a_conflict(runtime: Executor, source: Path) -> None:
    os.symlink("src", source / "alias")
    git(source, "add", "alias")
    git(source, "commit", "-qm", "alias")
    clone = clone_of(source)
    write(source, "src/main.py", "by alias\n")
    kept = stored(runtime.home, source, "alias/main.py", "src/main.py")
    other = runtime.home.blobs.put(b"other\n")
    two = with_file(kept, "alias/main.py", Bound("file", digest=other, size=6, kept=other))
    assert "leads to the same file" in refused(runtime.home, two, clone)
    assert set(actions(apply(runtime.home, kept, clone)).values()) == {"write"}
    assert (clone / "src/main.py").read_text() == "by alias\n"


def test_a_folder_or_a_file_in_the_way_is_a_conflict(runtime: Executor, source: Path) -> None:
    work(source)
    kept, clone = stored(runtime.home, source, "src/new/made.py", "link", "gone/later"), clone_of(source)
    write(clone, "src/new", "a file\n")
    write(clone, "link/inner", "mine\n")
    message = refused(runtime.home, kept, clone)
    assert "'src/new' is no folder here" in message
    assert "'link': a folder is in its place" in message


@pytest.mark.parametrize(("number", "raised"), [(28, DiskFull), (13, NotApplicable)])
def test_what_the_file_system_refuses_is_said_before_any_file_is_touched(
    runtime: Executor, source: Path, monkeypatch: pytest.MonkeyPatch, number: int, raised: type[Exception]
) -> None:
    work(source)
    kept, clone = stored(runtime.home, source), clone_of(source)
    before, fsync, calls = tree(clone), os.fsync, []

    def refusing(handle: int) -> None:
        calls.append(handle)
        if len(calls) == 6:
            raise OSError(number, "refused")
        fsync(handle)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refusing)
        with pytest.raises(raised):
            apply(runtime.home, kept, clone)
    assert tree(clone) == before
    apply(runtime.home, kept, clone)
    assert tree(clone) == tree(source)


def test_a_file_edited_while_others_are_placed_is_kept_and_said(runtime: Executor, source: Path) -> None:
    work(source)
    kept, clone = stored(runtime.home, source), clone_of(source)
    before, reached = tree(clone), list[str]()

    def edit(point: str) -> None:
        reached.append(point)
        if reached.count("apply.written") == 2:
            write(clone, "tool", "mine\n")

    failpoints.arm(edit)
    try:
        with pytest.raises(NotApplicable, match="'tool' changed just now; all else is as it was"):
            apply(runtime.home, kept, clone)
    finally:
        failpoints.arm(None)
    assert tree(clone) == before | {"tool": ("file", b"mine\n")}


def test_permissions_of_what_gives_way_are_kept(runtime: Executor, source: Path) -> None:
    work(source)
    kept, clone = stored(runtime.home, source), clone_of(source)
    (clone / "tool").chmod(0o640)
    (clone / "src/main.py").chmod(0o600)
    apply(runtime.home, kept, clone)
    assert (clone / "tool").stat().st_mode & 0o777 == 0o750
    assert (clone / "src/main.py").stat().st_mode & 0o777 == 0o600


# -- crashes -----------------------------------------------------------------------------------------


def points(home: Home, kept: Handoff, clone: Path) -> Iterator[tuple[str, int]]:
    """Every point that applying reaches, and which time it is."""
    reached: list[str] = []
    failpoints.arm(reached.append)
    try:
        apply(home, kept, clone)
    finally:
        failpoints.arm(None)
    assert {*failpoints.APPLY_POINTS} <= {*reached}
    return ((name, reached[: at + 1].count(name)) for at, name in enumerate(reached))


def killed(point: tuple[str, int], home: Home, kept: Handoff, clone: Path, tell: Tell) -> None:
    failpoints.arm(failpoints.kill_at(*point))
    apply(home, kept, clone)


@pytest.mark.crash
def test_killed_anywhere_files_are_whole_and_applying_again_does_the_rest(runtime: Executor, source: Path) -> None:
    for name in ("src/main.py", "other.txt", "src/new/made.py"):
        write(source, name, f"{name} after\n", 0o755)
    (source / "src/gone.py").unlink()
    kept = stored(runtime.home, source, "src/main.py", "src/gone.py", "src/new/made.py")
    first, original = clone_of(source, "first"), clone_of(source, "original")
    found, was, goal = list(points(runtime.home, kept, first)), tree(original), tree(source)
    assert len(found) == 9
    for number, point in enumerate(found):
        clone = source.parent / f"clone-{number}"
        shutil.copytree(original, clone, symlinks=True)
        assert in_child(with_options(killed, point, runtime.home, kept, clone), 60).killed
        halfway = {path: entry for path, entry in tree(clone).items() if ".outlast-" not in path}
        if point[0] != "apply.written":
            assert halfway == was
        assert "outlast" not in git(clone, "status", "--porcelain", "--untracked-files=all")
        assert all(entry in (was.get(path), goal.get(path)) for path, entry in halfway.items())
        assert apply(runtime.home, kept, clone).done
        assert tree(clone) == goal
        shutil.rmtree(clone)


@pytest.mark.crash
def test_what_a_killed_one_has_staged_is_cleared_by_the_next_one_of_any_handoff(
    runtime: Executor, source: Path
) -> None:
    work(source)
    kept, clone = stored(runtime.home, source), clone_of(source)
    assert in_child(with_options(killed, ("apply.written", 2), runtime.home, kept, clone), 60).killed
    assert (clone / STAGING).is_dir()
    apply(runtime.home, stored(runtime.home, source, "unrelated.txt", "data.bin"), clone)
    assert not (clone / STAGING).exists()


def test_a_link_in_place_of_the_staging_folder_is_not_followed(runtime: Executor, source: Path, tmp_path: Path) -> None:
    work(source)
    kept, clone, outside = stored(runtime.home, source), clone_of(source), tmp_path / "outside"
    write(outside, "mine", "mine\n")
    os.symlink(outside, clone / STAGING)
    assert "nothing was touched" in refused(runtime.home, kept, clone)
    assert tree(outside) == {"mine": ("file", b"mine\n")}


def test_two_cannot_apply_in_the_same_place_at_once(runtime: Executor, source: Path) -> None:
    work(source)
    kept, clone = stored(runtime.home, source), clone_of(source)
    failpoints.arm(lambda point: told.append(second()) if not told else None)
    told: list[str] = []

    def second() -> str:
        told.append("")
        ended = in_child(lambda tell: tell("error", refused_at(runtime.home, kept, clone)), 60)
        return str(ended.told("error")[0])

    try:
        apply(runtime.home, kept, clone)
    finally:
        failpoints.arm(None)
    assert "another process is applying" in told[1]


def refused_at(home: Home, kept: Handoff, clone: Path) -> str:
    failpoints.arm(None)
    with pytest.raises(NotApplicable) as raised:
        apply(home, kept, clone)
    return str(raised.value)
