"""Lint: the known mistakes of a handoff, each with a better wording in the contract's own words."""

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from outlast.handoffs.handoff import Contract, Finding, Lint
from outlast.handoffs.lint import PENALTIES, lint, unstable
from outlast.handoffs.wording import commands_in, last_order, only_past, paths_in, tense_of

SEED = Contract(
    anchor="task:export-repair",
    summary="Pause after diagnosis",
    handoff_text="Resume in src/routes/export.ts and patch the serializer mismatch.",
    target_files=("src/routes/export.ts",),
    next_action="Patch the export serializer and rerun the relevant checks.",
    acceptance_checks=("npm run -s test:lite -- export",),
)
PROSE = Contract(anchor="task:export-repair", summary="Looked at the export", handoff_text="Fixed the parser.")

WEAK = [
    "Fixed the parser.",
    "I fixed the serializer and added tests. All tests passed.",
    "We have changed the export route. The parser was rewritten.",
    "The migration was applied and the old table was dropped.",
    "Investigated the failing export test. Found that the serializer dropped the timezone. Updated the helper.",
    "Successfully implemented the retry logic and verified that everything works.",
    "## Summary\n- Added `src/retry.py`\n- Refactored the client\n- Updated the docs",
    "Done.",
    "All done! Tests pass.",
    "Spent the day on the flaky login test, got nowhere. CI was red the whole time.",
    "I've refactored the auth module. It should work now.",
    "Changes made:\n- Add retry to the client\n- Remove dead code\n- Update the tests",
    "Test suite passed. Build succeeded. No further work is needed.",
    "Looked into the memory leak yesterday; it came from the cache. Talked to Ana about it.",
    "The parser is fixed. Merged into main.",
    "Ran the linter, committed the result and pushed to origin.",
    "Added validation so that users will see a clear error. Nothing left to do.",
    "Completed:\n1. Parser rewritten\n2. Lexer cleaned up\n\nNext steps: none",
    "Commit `ab12cd3` fixed it. The reviewer was happy and the branch was merged.",
    "In src/routes/export.ts the serializer was replaced, then the snapshot tests were regenerated.",
]
STRONG = [
    "Resume in src/routes/export.ts and patch the serializer mismatch.",
    "Fixed the lexer. Next: patch the parser in src/parse.py.",
    "Need to embed the seed list in the build; speed matters less.",
    "The lexer was rewritten. The parser still needs the same treatment.",
    "Start in tests/test_export.py::test_utc, which fails. Make it pass without touching the schema.",
    "I changed the client. You should run the integration suite and look at the timeouts.",
    "TODO: wire the retry policy into the client.",
    "Done:\n- Added retry\n- Updated docs\n\nRemaining:\n- wire it into the CLI",
    "- [x] parser rewritten\n- [ ] serializer",
    "Fixed the parser, now patch the serializer in src/export.ts.",
    "Do not touch the lock file. Upgrade django first, then rerun the suite.",
    "We found the leak in the cache layer. It has to be closed before the release.",
    "If the migration fails on staging, revert it and tell Ana.",
    "Red build: check the failed jobs, then rebase onto main.",
    "I stopped half way through the rename: models are finished, views not yet.",
    "Seed the database with fixtures/users.json and reproduce the crash.",
    "Parser done, serializer remaining. The failing test must go green before you merge.",
    "I have moved the routes; please update the imports in src/app.ts.",
    "Tried to bisect, it was slow. To continue, run `git bisect good` on the next commit.",
    "Pick up at `Serializer.encode`: the tz branch returns naive datetimes. Keep the public signature as is.",
]
# Written after the rules and before they were tried on anything; the rules were not changed for them.
UNSEEN_WEAK = [
    "Rewrote the scheduler from scratch and benchmarked it. Latency went down by half.",
    "Session summary: I explored the codebase, identified the root cause in the queue worker, and deployed a hotfix.",
    "The upgrade to pydantic 2 took most of the morning. Two validators broke; both were repaired.",
    "Patch applied cleanly. Reviewed by Tom. Shipped in 2.3.",
    "Implemented dark mode.\n\nKey changes:\n* Created `theme.ts`\n* Replaced hard-coded colours\n* Verified in Chrome",
]
UNSEEN_STRONG = [
    "Queue worker leaks a connection on every retry. Wrap the acquire in a context manager (worker/pool.py, line 80).",
    "Half of the handlers were ported. Port the remaining four the same way, then delete legacy/.",
    "Yesterday the cache was warmed by hand; that cannot stay. Move the warm-up into deploy.sh and have a job do it.",
    "Blocked on the staging credentials. Once Ops delivers them, rerun the smoke tests and flip the flag.",
    "The index was created concurrently. Verify that the planner uses it and drop the old one.",
]


def codes(found: Lint) -> list[str]:
    return [finding.code for finding in found.findings]


def finding(contract: Contract, code: str, **options: bool) -> Finding:
    return next(each for each in lint(contract, **options).findings if each.code == code)


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


# The score


def test_the_example_of_the_source_is_execution_ready() -> None:
    assert lint(SEED) == Lint(100, (), False)


def test_the_weak_handoff_of_the_source_has_every_mistake_and_scores_nothing() -> None:
    found = lint(replace(PROSE, anchor=""), unchanged=True)
    assert codes(found) == [
        "no_anchor",
        "past_tense",
        "no_files",
        "no_next_action",
        "no_checks",
        "prose_only",
        "too_early",
    ]
    assert (found.score, found.weak) == (0, True)


@pytest.mark.parametrize(
    ("change", "code", "score"),
    [
        ({"anchor": ""}, "no_anchor", 60),
        ({"target_files": ()}, "no_files", 75),
        ({"next_action": "  "}, "no_next_action", 70),
        ({"acceptance_checks": ()}, "no_checks", 80),
        ({"handoff_text": "Fixed the parser."}, "past_tense", 85),
        ({"execution_packet_v1": raw({"anchor": "task:other"})}, "packet_disagrees", 80),
    ],
)
def test_each_mistake_has_its_price_and_a_better_wording(change: dict[str, Any], code: str, score: int) -> None:
    found = lint(replace(SEED, **change))
    assert codes(found) == [code]
    assert (found.score, found.weak) == (score, score <= 75)
    assert found.findings[0].says
    assert found.findings[0].better


def test_one_mistake_found_twice_costs_once() -> None:
    found = lint(replace(SEED, handoff_text="Fixed the parser.", next_action="Fixed the lexer too."))
    assert (codes(found), found.score) == (["past_tense", "past_tense", "no_next_action"], 55)


def test_storing_with_nothing_done_is_too_early_and_names_what_to_do_first() -> None:
    found = lint(SEED, unchanged=True)
    assert (codes(found), found.score, found.weak) == (["too_early"], 90, False)
    assert "Patch the export serializer" in found.findings[0].better


def test_prose_only_is_sent_to_the_workspace_with_its_own_words() -> None:
    assert finding(PROSE, "prose_only").better == 'workspace.record("note", "Looked at the export")'


# The anchor


@pytest.mark.parametrize(
    "anchor",
    [
        "",
        "   ",
        "task:",
        "42",
        "#42",
        "latest",
        "task:wip",
        "task:tmp",
        "handoff",
        "latest-handoff",
        "task:fix-2026-01-31",
        "fix_20260131",
        "task:run-1767225600",
        "task:at-12:30:05",
        "task:9f1c2d3e-4b5a-6789-8abc-def012345678",
        "task:after-3fa9c1d",
        "task:3fa9c1d2e4b5a69788776655443322110f0e0d0c",
    ],
)
def test_an_anchor_that_does_not_stay_is_found_and_the_proposed_one_stays(anchor: str) -> None:
    better = finding(replace(SEED, anchor=anchor), "no_anchor").better
    assert better == "task:pause-after-diagnosis"
    assert not unstable(better)


@pytest.mark.parametrize(
    "anchor",
    [
        "task:export-repair",
        "branch:main",
        "branch:fix-2026-01-31",
        "issue:42",
        "task:JIRA-1234",
        "task:upgrade-django-5.2",
        "task:budget-2026",
        "task:wip-limits",
        "task:decade-facade",
        "task:build-3fa9c1d2e4b5",
        "задача:экспорт",
        "task:export repair",
    ],
)
def test_a_name_that_stays_is_a_good_anchor(anchor: str) -> None:
    assert unstable(anchor) == ""


def test_a_summary_without_a_name_in_it_gives_the_anchor_from_the_next_action() -> None:
    found = finding(replace(SEED, anchor="", summary="2026-01-31 !!!"), "no_anchor")
    assert found.better == "task:patch-the-export-serializer-and-rerun"


# The tense


@pytest.mark.parametrize("text", WEAK)
def test_a_text_that_only_looks_back_is_past_tense(text: str) -> None:
    assert only_past(text)
    assert codes(lint(replace(SEED, handoff_text=text))) == ["past_tense"]


@pytest.mark.parametrize("text", STRONG)
def test_a_text_that_looks_forward_is_clean(text: str) -> None:
    assert not only_past(text)
    assert lint(replace(SEED, handoff_text=text)).score == 100


def test_all_forty_texts_are_judged_right_and_nine_in_ten_of_those_never_looked_at() -> None:
    assert (len(WEAK), len(STRONG), len(UNSEEN_WEAK + UNSEEN_STRONG)) == (20, 20, 10)
    assert [only_past(text) for text in WEAK + STRONG] == [True] * 20 + [False] * 20
    right = sum(only_past(text) for text in UNSEEN_WEAK) + sum(not only_past(text) for text in UNSEEN_STRONG)
    assert right >= 9


@pytest.mark.parametrize(
    "word", ["Need", "Red", "Embed", "Seed", "Speed", "Feed", "Shed", "Exceed", "Proceed", "Hundred"]
)
def test_a_word_that_ends_like_a_past_tense_is_none(word: str) -> None:
    assert tense_of(f"{word}.") != "past"
    assert tense_of(f"{word} the list.") != "past"


@pytest.mark.parametrize(
    "text", ["", "   \n", "修复了解析器。", "Der Parser wurde repariert.", "```\nfixed\n```", "🔥🔥"]
)
def test_what_the_rules_cannot_read_is_not_accused(text: str) -> None:
    assert not only_past(text)


def test_an_order_after_a_colon_is_an_order() -> None:
    assert not only_past("I reproduced the bug. Whoever takes this: begin with the assertion in spec/queue_spec.rb.")


def test_the_better_text_says_what_is_next_in_the_words_of_the_contract() -> None:
    better = finding(replace(SEED, handoff_text="Fixed the parser."), "past_tense").better
    assert better == "Next: Patch the export serializer and rerun the relevant checks. So far: Fixed the parser."
    assert not only_past(better)


def test_a_next_action_in_the_past_gets_the_order_that_the_text_gives() -> None:
    given_text = replace(SEED, next_action="Fixed the parser.")
    found = finding(given_text, "past_tense")
    assert (found.path, found.better) == ("next_action", SEED.handoff_text)


def test_the_better_wording_is_never_one_that_looks_back_again() -> None:
    past = replace(SEED, handoff_text="Done: fix the parser.", next_action="Fixed it.", target_files=())
    for packet in ({"next_action": "Patched it."}, {"next_action": 5}, {}):
        found = lint(replace(past, execution_packet_v1=raw(packet))).findings
        assert all(not only_past(each.better) for each in found if each.code == "past_tense")
        assert sum(each.code == "past_tense" for each in found) == 2


# What is missing


def test_a_missing_next_action_is_the_last_order_in_the_text() -> None:
    text = "Start in src/a.py. I fixed the lexer.\n- Next: port the parser to src/b.py. It was slow."
    assert finding(replace(SEED, next_action=None, handoff_text=text), "no_next_action").better == (
        "port the parser to src/b.py."
    )


def test_without_an_order_the_next_action_names_the_first_file_the_symbol_and_the_check() -> None:
    bare = replace(SEED, next_action=None, handoff_text="The serializer is wrong.", symbol="encode")
    assert finding(bare, "no_next_action").better == (
        "Open src/routes/export.ts at encode and continue until `npm run -s test:lite -- export` passes: "
        "Pause after diagnosis"
    )


def test_a_next_action_that_only_the_packet_has_is_proposed_and_is_no_disagreement() -> None:
    bare = replace(SEED, next_action=None, handoff_text="Wrong.", execution_packet_v1=raw({"next_action": "Port it."}))
    assert codes(lint(bare)) == ["no_next_action"]
    assert finding(bare, "no_next_action").better == "Port it."


def test_missing_files_are_those_that_the_text_mentions() -> None:
    text = (
        "Open `src/a.py:12`, then (tests/test_a.py). See https://x.test/a.html, Node.js, and/or ../etc/x.py, /etc/x.py."
    )
    assert finding(replace(SEED, target_files=(), handoff_text=text), "no_files").better == (
        '["src/a.py","tests/test_a.py"]'
    )


def test_a_file_path_is_a_file() -> None:
    assert codes(lint(replace(SEED, target_files=(), file_path="src/a.py"))) == []


@pytest.mark.parametrize(
    ("files", "text", "check"),
    [
        (("src/a.py",), "Patch `encode`, then `pytest -q tests/export`.", '["pytest -q tests/export"]'),
        (("src/a.py",), "Patch it.", '["pytest -q"]'),
        (("src/a.py", "tests/test_a.py"), "Patch it.", '["pytest -q tests/test_a.py"]'),
        (("src/a.ts",), "Patch it.", '["npm test"]'),
        (("web/a.jsx", "lib.rs"), "Patch it.", '["npm test","cargo test"]'),
        (("main.go",), "Patch it.", '["go test ./..."]'),
        (("notes.md",), "Patch it.", '[{"file":"notes.md","contains":"TEXT THAT THE FINISHED WORK HAS"}]'),
        ((), "Patch it.", '["COMMAND THAT PASSES WHEN DONE: Pause after diagnosis"]'),
    ],
)
def test_a_missing_check_comes_from_the_text_or_the_kind_of_files(
    files: tuple[str, ...], text: str, check: str
) -> None:
    bare = replace(SEED, acceptance_checks=(), target_files=files, handoff_text=text)
    assert finding(bare, "no_checks").better == check


def test_paths_and_commands_are_known_when_seen() -> None:
    assert paths_in("In ./src/a.py, docs/ and Makefile; i.e. v1.2.3, 9/10, I/O, **lib/b.rs**.") == [
        "src/a.py",
        "docs/",
        "Makefile",
        "lib/b.rs",
    ]
    assert commands_in("Use `make test`, `encode()`, `./run.sh -x`.\n```\n$ cargo test\n```") == [
        "make test",
        "./run.sh -x",
        "cargo test",
    ]
    assert last_order("Fixed it. All good. Done: fix the parser.") == ""


# What the packets say


@pytest.mark.parametrize("name", ["execution_packet_v1", "execution_state_v1"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("anchor", "task:other"),
        ("next_action", "Delete it."),
        ("next_action", 5),
        ("target_files", ["src/other.ts"]),
        ("target_files", []),
        ("file_path", "src/other.ts"),
        ("acceptance_checks", ["npm test"]),
        ("acceptance_checks", "npm test"),
    ],
)
@pytest.mark.parametrize("inside", ["", "packet", "task"])
def test_a_packet_that_disagrees_is_named_with_both_values(name: str, key: str, value: Any, inside: str) -> None:
    packet = {inside: {key: value}} if inside else {key: value}
    found = finding(replace(SEED, **{name: raw(packet)}), "packet_disagrees")
    field = "target_files" if key == "file_path" else key
    said = getattr(SEED, field)
    assert found.path == ".".join(filter(None, (name, inside, key)))
    assert msgspec.json.encode(value).decode() in found.says
    assert msgspec.json.encode(said).decode() in found.says


def test_a_symbol_and_a_file_path_of_a_packet_are_compared_with_the_fields() -> None:
    contract = replace(SEED, symbol="encode", file_path="src/a.ts")
    packet = raw({"symbol": "decode", "file_path": "src/b.ts"})
    assert codes(lint(replace(contract, execution_packet_v1=packet))) == ["packet_disagrees", "packet_disagrees"]


@pytest.mark.parametrize(
    "packet",
    [
        {"anchor": "task:export-repair", "next_action": " Patch the export serializer and rerun the relevant checks. "},
        {"target_files": ["./src/routes/export.ts"], "file_path": "src/routes/export.ts"},
        {"target_files": [{"path": "src/routes/export.ts"}], "acceptance_checks": ["npm run -s test:lite -- export"]},
        {"symbol": "encode", "anchor": None},
        {"last_tool_call": {"file_path": "src/other.ts"}},
        ["anchor", "task:other"],
        "text",
        None,
    ],
)
def test_a_packet_that_agrees_or_only_adds_is_left_alone(packet: Any) -> None:
    assert codes(lint(replace(SEED, execution_packet_v1=raw(packet)))) == []


# Whatever is given

words = st.text(max_size=60) | st.sampled_from([*WEAK, *STRONG, "handoff", "2026-01-01", "3fa9c1d", "a\x00b\n# c"])
anything = st.builds(
    Contract,
    anchor=words,
    summary=words,
    handoff_text=words,
    next_action=words | st.none(),
    target_files=st.lists(words, max_size=3).map(tuple),
    acceptance_checks=st.lists(words, max_size=2).map(tuple),
    execution_packet_v1=st.none() | st.dictionaries(st.sampled_from(["anchor", "task", "x"]), words).map(raw),
)


@given(anything, st.booleans())
def test_every_contract_gets_a_score_and_every_finding_says_something(contract: Contract, unchanged: bool) -> None:
    found = lint(contract, unchanged=unchanged)
    assert found.score == max(0, 100 - sum(PENALTIES[code] for code in set(codes(found))))
    assert found.weak == (found.score <= 75)
    assert all(each.says and each.better and each.path for each in found.findings)
    assert found == lint(contract, unchanged=unchanged)


@given(anything)
def test_a_proposed_anchor_and_a_proposed_text_are_free_of_the_mistake(contract: Contract) -> None:
    for each in lint(contract).findings:
        if each.code == "no_anchor":
            assert not unstable(each.better)
        if each.code == "past_tense":
            assert not only_past(each.better)


def test_what_is_proposed_for_empty_words_and_checks_is_not_empty_again() -> None:
    words = "Continue working on it"
    given = replace(SEED, anchor="fix", summary="wip", handoff_text=words, next_action=words)
    better = {
        (each.code, each.path): each.better for each in lint(replace(given, acceptance_checks=("true",))).findings
    }
    assert better["empty_words", "next_action"] == "Open src/routes/export.ts and continue: WHAT IS TO BE DONE"
    assert better["empty_words", "handoff_text"] == better["empty_words", "next_action"]
    assert better["no_anchor", "anchor"] == "task:src-routes-export-ts"


@pytest.mark.parametrize(
    "text", ["a" * 200_000, "so " * 30_000, "/" * 200_000, "`" * 200_001, " " * 200_000, "a/" * 99_999]
)
def test_a_hostile_text_takes_no_longer_than_its_length(text: str) -> None:
    began = time.process_time()
    lint(replace(PROSE, handoff_text=text, summary=text, anchor=text))
    assert time.process_time() - began < 10


@pytest.mark.parametrize("order", ["Change a.txt to b", "Complete the form in src/form.ts", "Change the limit"])
def test_an_order_that_begins_like_a_heading_is_an_order(order: str) -> None:
    assert not only_past(order)
