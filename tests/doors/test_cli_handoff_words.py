"""What `outlast handoff` takes and what it prints: fields, names, JSON in reading order, empty places, odd input."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from outlast.doors.cli.handoff import ENDINGS
from outlast.handoffs.handoff import ENDINGS as ALL_ENDINGS

from .repository import CHECK, GOOD, Repository

if TYPE_CHECKING:
    from tests.doors.conftest import Cli

PACKET = '{"b": 1.50,\n "a": [1e3, "\\u00e9"], "b2":  {}}'
WEIRD = ["fix 'it' \"now\" $HOME", "日本 🙂", "-x", "a@b", "-- --json", "`id`;true"]


@pytest.fixture
def repo(cli: "Cli") -> Repository:
    return Repository(cli)


# -- fields ----------------------------------------------------------------------------------------------


def test_every_option_of_store_is_a_field(repo: Repository) -> None:
    repo.write("env = 1\n", "env.lock")
    words = (
        *(
            "--text",
            "Read lib/tool.py first.",
            "--must-change",
            "the limit",
            "--must-remove",
            '{"file": "x", "absent": true}',
        ),
        *(
            "--must-keep",
            "the names",
            "--rollback",
            "git checkout app.py",
            "--env",
            "env.lock",
            "--entry",
            "lib/tool.py",
        ),
        *("--symbol", "tool", "--risk", "low", "--tag", "a", "--tag", "b", "--kind", "repair", "--expires", "7d"),
        *("--state", '{"phase": 2}', "--packet", "@packet.json", "--check", '{"run": "true", "timeout": 9}'),
    )
    repo.write(PACKET, "packet.json")
    stored = repo.store("all", *words)
    assert stored["handoff_text"] == "Read lib/tool.py first."
    assert stored["acceptance_checks"] == [CHECK, {"run": "true", "timeout": 9}]
    assert (stored["must_change"], stored["must_remove"]) == (["the limit"], [{"file": "x", "absent": True}])
    assert (stored["must_keep"], stored["rollback"]) == (["the names"], ["git checkout app.py"])
    assert stored["entry"] == {"file": "lib/tool.py", "symbol": "tool"}
    assert (stored["risk"], stored["tags"], stored["handoff_kind"], stored["expires"]) == (
        "low",
        ["a", "b"],
        "repair",
        "7d",
    )
    assert (stored["environment"], stored["execution_state_v1"]) == (["env.lock"], {"phase": 2})
    assert PACKET in repo("show", "all", "--json").out  # byte for byte
    shown = repo("recover", "all")
    assert shown.code == 0
    assert f"execution_packet_v1: {len(PACKET.encode())} bytes" in shown.out
    assert "must remove:\n  x absent\n" in shown.out
    assert "Read lib/tool.py first." in shown.out


def test_the_text_comes_from_next_from_a_file_or_from_standard_input(repo: Repository) -> None:
    assert repo.store("a")["handoff_text"] == GOOD[3]
    repo.write("from a file\n", "notes.md")
    assert repo.store("b", "--text", "@notes.md")["handoff_text"] == "from a file\n"
    piped = repo("store", "c", *GOOD, "--text", "-", "--json", stdin="from a pipe: é".encode())
    assert piped.json["handoff_text"] == "from a pipe: é"
    missing = repo("store", "d", "-m", "Something")
    assert (missing.code, "--next TEXT" in missing.err) == (2, True)
    assert "-m TEXT is missing" in repo("store", "d", "--next", "Go on").err
    assert "cannot read 'nope'" in repo("store", "d", *GOOD, "--text", "@nope").err
    assert "no UTF-8" in repo("store", "d", *GOOD, "--text", "-", stdin=b"\xff").err


def test_files_are_named_from_here_and_kept_from_the_root(repo: Repository) -> None:
    inside = repo.folder / "lib"
    repo.store("other")
    stored = repo("store", "t", *GOOD[:4], "--file", "tool.py", "--file", "../app.py", "--json", cwd=inside)
    assert stored.json["target_files"] == ["lib/tool.py", "app.py"], stored
    found = repo("recover", "--file", "tool.py", "--json", cwd=inside)
    assert (found.code, found.json["anchor"]) == (0, "t")
    outside = repo("store", "t", *GOOD[:4], "--file", "../../other.py", cwd=inside)
    assert (outside.code, "is not inside" in outside.err) == (2, True)
    assert repo("store", "t", *GOOD, "--repo", "nowhere").code == 2


def test_all_fields_come_as_one_object(repo: Repository) -> None:
    fields: dict[str, Any] = {
        "anchor": "whole",
        "summary": "Limit is not kept.",
        "next_action": "Set it in app.py.",
        "target_files": ["app.py"],
        "acceptance_checks": [CHECK],
        "operation_id": "op-1",
    }
    text = json.dumps(fields)[:-1] + f', "execution_packet_v1": {PACKET}}}'
    first = repo("store", "--from", "-", "--json", stdin=text.encode())
    assert (first.code, first.json["revision"], first.json["handoff_text"]) == (0, 1, "Set it in app.py.")
    assert PACKET in first.out
    repo.write(text, "whole.json")
    again = repo("store", "--from", "@whole.json")
    assert (again.code, "whole@1 was stored already" in again.out) == (0, True)
    unknown = repo("store", "--from", "-", stdin=json.dumps(fields | {"next_acton": "x"}).encode())
    assert (unknown.code, "did you mean `next_action`?" in unknown.err) == (2, True)
    assert repo("store", "other", "--from", "@whole.json").code == 2  # says another anchor
    assert repo("store", "--from", "-", stdin=b"[1]").code == 2
    assert repo("store", "--from", "whole.json").code == 2
    assert repo("lint", "--from", "@whole.json").code == 0
    scoped = repo("store", "--from", "-", stdin=json.dumps(fields | {"scope": "ui", "operation_id": "op-2"}).encode())
    assert scoped.out.endswith("recover it: outlast handoff recover whole --scope ui\n")


def test_a_revision_is_stored_on_condition_and_replaces_by_id(repo: Repository) -> None:
    first = repo.store("t", "--expect", "0")
    late = repo("store", "t", *GOOD, "--expect", "0")
    assert (late.code, "--expect 1" in late.err) == (4, True)
    second = repo.store("u", "--supersedes", first["id"][:8])
    assert second["supersedes"] == first["id"]
    assert "superseded" in repo("recover", "t").out


def test_a_weak_one_is_told_what_is_better_and_refused_when_strict(repo: Repository) -> None:
    weak = ("store", "w", "-m", "Fixed the bug", "--text", "We fixed it.")
    told = repo(*weak)
    assert (told.code, ", weak" in told.out, "    better: " in told.out) == (0, True, True)
    refused = repo(*weak, "--strict")
    assert (refused.code, "without --strict" in refused.err) == (4, True)
    assert repo("lint", "w").code == 4
    assert repo("lint", "w", *weak[2:]).code == 4
    fine = repo("lint", "good", *GOOD, "--json")
    assert (fine.code, fine.json["weak"], fine.json["score"]) == (0, False, 100)
    assert repo("show", "good").code == 5  # nothing was stored


def test_secrets_are_refused_or_masked(repo: Repository) -> None:
    secret = "token ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8"
    refused = repo("store", "s", *GOOD, "--risk", secret)
    assert (refused.code, "--redact" in refused.err, secret in refused.err) == (2, True, False)
    masked = repo("store", "s", *GOOD, "--risk", secret, "--redact")
    assert (masked.code, "risk" in masked.out, secret in repo("show", "s").out) == (0, True, False)


def test_a_check_is_a_command_unless_it_is_an_object(repo: Repository) -> None:
    stored = repo.store("c", "--check", "{ true; }", "--check", '{"file": "app.py", "exists": true}', "--baseline")
    assert stored["acceptance_checks"][1:] == ["{ true; }", {"file": "app.py", "exists": True}]
    assert [each["passed"] for each in stored["baseline"]] == [False, True, True]
    assert repo("store", "c", *GOOD, "--check", '{"run": "true"').code == 2


# -- names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("anchor", WEIRD, ids=range(len(WEIRD)))
def test_a_weird_anchor_is_stored_and_its_command_can_be_copied(repo: Repository, anchor: str) -> None:
    stored = repo("store", *GOOD, "--", anchor)
    assert stored.code == 0, stored
    line = stored.out.splitlines()[-1].removeprefix("recover it: ")
    words = shlex.split(line)
    assert words[:3] == ["outlast", "handoff", "recover"]
    assert repo(*words[2:]).code == 0, line


def test_an_anchor_of_ten_thousand_characters_is_refused(repo: Repository) -> None:
    refused = repo("store", "x" * 10_000, *GOOD)
    assert (refused.code, "10,000 characters" in refused.err) == (2, True)
    assert repo("recover", "x" * 10_000).code == 2
    assert repo("store", "two\nlines", *GOOD).code == 2
    assert repo("store", "", *GOOD).code == 2


def test_a_revision_is_named_behind_its_anchor(repo: Repository) -> None:
    repo.store("t")
    repo.store("t", "--risk", "high")
    assert repo("show", "t@1", "--json").json["risk"] is None
    assert repo("show", "t@2", "--json").json["risk"] == "high"
    old = repo("recover", "t@1", "--json")
    assert "superseded" in {reason["code"] for reason in old.json["reasons"]}
    assert repo("show", "t@3").code == 5
    repo.store("t@1")
    assert repo("show", "t@1", "--json").json["anchor"] == "t@1"  # the one that is called so


def test_a_handoff_is_found_by_id_and_an_unknown_one_names_the_nearest(repo: Repository) -> None:
    stored = repo.store("fix limit")
    for words in (("show", "--id", stored["id"][:8]), ("recover", "--id", stored["id"])):
        assert repo(*words, "--json").json["anchor"] == "fix limit"
    missing = repo("recover", "fix limt")
    assert (missing.code, "nearest: fix limit" in missing.err) == (5, True)
    assert repo("show", "--id", "nope").code == 5
    assert repo("recover", "a", "--id", "b").code == 2
    assert repo("show").code == 2
    assert repo("show", "--run", "x").code == 2


def test_without_a_name_it_is_the_newest_of_this_branch(repo: Repository) -> None:
    repo.store("old")
    repo.store("new")
    assert repo("recover", "--json").json["anchor"] == "new"
    repo.git("switch", "-q", "-c", "other")
    none = repo("recover")
    assert (none.code, "branch 'other'" in none.err) == (5, True)


def test_a_file_of_several_handoffs_is_ambiguous(repo: Repository) -> None:
    repo.store("one")
    repo.store("two")
    several = repo("recover", "--file", "app.py")
    assert several.code == 2
    assert "one" in several.err
    assert "two" in several.err
    assert "[handoff_ambiguous]" in several.err
    assert repo("recover", "--file", "lib/tool.py").code == 5


# -- what is printed -------------------------------------------------------------------------------------


def test_json_has_the_reading_order_and_is_one_object_everywhere(repo: Repository) -> None:
    repo.store("limits", "--packet", '{"first": true}')
    order = [*repo("recover", "limits", "--json").json]
    places = [order.index(name) for name in ("verdict", "reasons", "anchor", "entry", "next_action", "target_files")]
    assert places == sorted(places)
    assert places[0] == 0
    assert order.index("rollback") < order.index("execution_packet_v1")
    shown = [*repo("show", "limits", "--json").json]
    assert shown.index("anchor") < shown.index("next_action") < shown.index("execution_packet_v1")
    assert repo("list", "--json").json["handoffs"][0]["anchor"] == "limits"
    assert repo("list", "--look", "--json").json["handoffs"][0]["verdict"]["word"] == "trusted"
    assert repo("verify", "limits", "--json").json["evidence"][0]["passed"] is False
    assert repo("claim", "limits", "--json").json["anchor"] == "limits"
    assert repo("diff", "limits", "--json").json["same"] is True
    assert repo("apply", "limits", "--dry-run", "--json").json["anchor"] == "limits"
    assert repo("history", "limits", "--json").json["history"][0]["kind"] == "stored"
    assert repo("renew", "limits", "--json").json["error"]["code"] == "handoff_claimed"
    assert repo("recover", "--tokens", "3", "--json").json["error"]["code"] == "usage"


def test_a_prompt_is_a_text_of_at_most_so_many_tokens(repo: Repository) -> None:
    repo.store("limits")
    prompt = repo("recover", "limits", "--prompt")
    assert (prompt.code, prompt.out.splitlines()[0]) == (0, "# Verdict: trusted")
    assert repo("recover", "limits", "--prompt", "--json").json["prompt"] == prompt.out.rstrip("\n")
    assert repo("recover", "limits", "--prompt", "--explain").code == 2
    assert repo("recover", "limits", "--prompt", "--tokens", "1").code == 2


def test_the_list_shows_how_each_stands(repo: Repository) -> None:
    empty = repo.forked("handoff", "list", "--home", str(repo.folder / "h"))
    assert empty.code == 5
    repo.store("one")
    repo.store("two")
    repo.claimed("two", "--actor", "ann")
    assert repo("settle", "one", "completed", "--override", "it is").code == 0
    head, *rows = repo("list").out.splitlines()
    assert head.split("  ")[0] == "ANCHOR"
    assert head.endswith("NEXT ACTION")
    assert [row.split()[:4] for row in rows] == [["two", "claimed", "1", "100"], ["one", "finished", "1", "100"]]
    assert "ann (on " in rows[0]
    assert "completed" in rows[1]
    assert GOOD[3] in rows[0]
    assert [row["anchor"] for row in repo("list", "--claimed", "--json").json["handoffs"]] == ["two"]
    assert repo("list", "--expired").out == "no expired handoffs; see `outlast handoff list`\n"
    assert len(repo("list", "--limit", "1").out.splitlines()) == 2


def test_nothing_in_a_handoff_can_steer_a_terminal(repo: Repository) -> None:
    repo.store("t", "--risk", "\x1b[2Jgone", "--text", "a\x1b]0;x\x07\nb")
    for words in (("show", "t"), ("recover", "t"), ("list",), ("history", "t"), ("recover", "t", "--explain")):
        assert "\x1b" not in repo(*words).out


# -- carrying --------------------------------------------------------------------------------------------


def test_what_changed_is_shown_since_it_was_stored_and_between_revisions(repo: Repository) -> None:
    repo.store("t")
    repo.write("limit = 9\n")
    changed = repo("diff", "t").out
    assert "-limit = 1\n+limit = 9\n" in changed
    repo.store("t", "--risk", "high")
    for words in (("1", "2"), ("1",)):
        assert "risk" in repo("diff", "t", *words).out
    assert repo("diff", "t", "1", "7").code == 5
    assert repo("diff", "t", "1", "2", "3").code == 2


def test_the_work_is_exported_imported_and_applied_elsewhere(repo: Repository, tmp_path: Path) -> None:
    repo.write("limit = 4\n")
    repo.store("t")
    out = repo("export", "t", "t.zip")
    assert (out.code, "t@1 copied to" in out.out) == (0, True)
    repo.git("stash", "-q", "--", "app.py")
    home = ("--home", str(tmp_path / "elsewhere"))
    came = repo("import", "t.zip", *home)
    assert (came.code, f"recover it: outlast handoff recover t {' '.join(home)}" in came.out) == (0, True)
    assert repo("import", "t.zip", *home, "--json").json["replayed"] is True
    assert repo("apply", "t", *home, "--dry-run").code == 0
    assert (repo.folder / "app.py").read_text() == "limit = 1\n"
    applied = repo("apply", "t@1", *home)
    assert (applied.code, (repo.folder / "app.py").read_text()) == (0, "limit = 4\n"), applied
    repo.write("limit = 8\n")
    hindered = repo("apply", "t", *home, "--dry-run")
    assert (hindered.code, "conflict: app.py" in hindered.out) == (4, True)
    assert repo("apply", "t", *home).code == 4
    assert repo("import", "app.py").code == 2


def test_later_commits_give_way_by_force_and_what_is_the_same_is_only_counted(repo: Repository) -> None:
    repo.write("limit = 3\n")
    repo.store("t", "--file", "lib/tool.py")
    repo.write("limit = 7\n")
    repo.git("commit", "-q", "-a", "-m", "later")
    hindered = repo("apply", "t")
    assert (hindered.code, "changed here by later commits" in hindered.err) == (4, True), hindered
    assert (repo.folder / "app.py").read_text() == "limit = 7\n"
    forced = repo("apply", "t", "--force")
    assert (forced.code, (repo.folder / "app.py").read_text()) == (0, "limit = 3\n"), forced
    assert "write: app.py\nthe same already: 1 file\n" in forced.out
    assert ": nothing to do\nthe same already: 2 files\n" in repo("apply", "t").out


def test_what_is_bound_and_not_kept_is_said_with_its_reason(repo: Repository) -> None:
    repo.write("NAME=value\n", ".env")
    repo.write("x" * (3 << 20), "big.txt")
    for number in range(6):
        repo.write("x", f"lib/{number}.pem")
    said = repo("store", "t", *GOOD, "--file", ".env", "--file", "big.txt", "--file", "lib").out
    (line,) = [line for line in said.splitlines() if line.startswith("not kept")]
    assert line.split(maxsplit=2)[2].startswith("8: .env (it has a secret in it, or is named like a file that has), ")
    assert "big.txt (too large)" in line
    assert line.endswith(", and 3 more")
    assert "not kept" not in repo("store", "u", *GOOD).out


def test_new_files_that_will_not_travel_are_named_when_it_is_stored_and_when_it_is_applied(repo: Repository) -> None:
    assert "stays behind" not in repo("store", "t", *GOOD).out
    for number in range(7):
        repo.write("x", f"new {number}.txt")
    said = repo("store", "t", *GOOD).out
    (line,) = [line for line in said.splitlines() if line.startswith("stays behind")]
    assert "new 0.txt, new 1.txt, new 2.txt, new 3.txt, new 4.txt, and 2 more (" in line
    assert "git add" in line
    told = json.loads(repo("store", "t", *GOOD, "--json").out)
    assert told["binding"]["untracked"] == [f"new {number}.txt" for number in range(7)]
    assert "are not brought along: 'new 0.txt'" in repo("apply", "t", "--dry-run").out


def test_apply_merges_and_leaves_conflicts_only_when_it_is_told_to(repo: Repository) -> None:
    lines = [f"line {number}\n" for number in range(20)]
    repo.write("".join(lines))
    repo.git("commit", "-q", "-a", "-m", "longer")
    repo.write("".join(["by the work\n", *lines[1:]]))
    repo("store", "t", *GOOD)
    repo.write("".join([*lines[:-1], "mine\n"]))
    merged = repo("apply", "t")
    assert (merged.code, "merge: app.py (changed here too)" in merged.out) == (0, True), merged
    assert (repo.folder / "app.py").read_text() == "".join(["by the work\n", *lines[1:-1], "mine\n"])
    again = repo("apply", "t")
    assert (again.code, ": nothing to do\n" in again.out) == (0, True), again
    repo.write("".join(["mine\n", *lines[1:]]))
    refused = repo("apply", "t")
    assert (refused.code, "--leave-conflicts" in refused.err) == (4, True), refused
    assert (repo.folder / "app.py").read_text() == "".join(["mine\n", *lines[1:]])
    left = repo("apply", "t", "--leave-conflicts", "--json")
    assert left.code == 4
    assert [file["action"] for file in json.loads(left.out)["files"] if file["path"] == "app.py"] == ["conflict left"]
    assert "<<<<<<< here\nmine\n" in (repo.folder / "app.py").read_text()


def test_what_a_step_of_a_run_hands_over_is_shown(cli: "Cli") -> None:
    run = cli.here("flows.py:report", topic="ai")
    repo = Repository(cli)
    shown = repo("show", "--run", run[:8], "--step", "find")
    assert shown.code == 0
    assert 'result: ["ai", "AI"]' in shown.out
    assert repo("show", "--run", run, "--step", "find", "--json").json["step"] == "find"
    assert repo("show", "--run", run, "--step", "nope").code == 5


# -- empty places ----------------------------------------------------------------------------------------

EVERY = (
    ("recover", "x"),
    ("list",),
    ("show", "x"),
    ("lint", "x"),
    ("diff", "x"),
    ("apply", "x"),
    ("verify", "x"),
    ("claim", "x"),
    ("renew", "x"),
    ("settle", "x", "failed"),
    ("history", "x"),
    ("export", "x"),
)


def test_without_a_home_nothing_is_found_and_none_is_made(cli: "Cli") -> None:
    repo = Repository(cli)
    for words in EVERY:
        answer = repo(*words)
        assert (answer.code, "`handoff store`" in answer.err) == (5, True), words
    assert repo("lint", "limits", *GOOD).code == 0
    assert repo("store", "x").code == 2  # wrong usage
    assert not (repo.folder / ".outlast").exists()


def test_in_an_empty_home_every_command_says_what_to_do(cli: "Cli") -> None:
    with cli.opened():
        pass
    repo = Repository(cli)
    for words in EVERY:
        answer = repo(*words)
        if words == ("list",):
            assert (answer.code, "store one: outlast handoff store ANCHOR" in answer.out) == (0, True)
        else:
            assert (answer.code, "outlast handoff list" in answer.err) == (5, True), (words, answer)


def test_outside_of_git_files_are_kept_from_here(cli: "Cli", tmp_path: Path) -> None:
    repo = Repository(cli)
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "app.py").write_text("limit = 1\n")
    made = repo("store", "p", *GOOD, "--home", str(plain / ".outlast"), cwd=plain)
    assert made.code == 0, made
    assert repo("recover", "p", cwd=plain).code == 0


def test_anchors_complete_like_runs_do(repo: Repository, tmp_path_factory: pytest.TempPathFactory) -> None:
    repo.store("alpha")
    repo.store("beta")

    def offered(*words: str, cwd: Path | None = None) -> list[str]:
        given = {"COMP_WORDS": " ".join(["outlast", *words]), "COMP_CWORD": str(len(words))}
        answer = repo.forked(cwd=cwd, _OUTLAST_COMPLETE="zsh_complete", **given)
        assert (answer.code, answer.err) == (0, "")
        return answer.out.splitlines()[1::3]

    assert offered("handoff", "recover", "") == ["beta", "alpha"]
    assert offered("handoff", "settle", "al") == ["alpha"]
    assert offered("handoff", "re") == ["recover", "renew"]
    home = str(repo.folder / ".outlast")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert offered("handoff", "show", "b", cwd=elsewhere) == []
    assert offered("--home", home, "handoff", "show", "b", cwd=elsewhere) == ["beta"]


def test_the_endings_are_those_of_the_core() -> None:
    assert ENDINGS == ALL_ENDINGS
