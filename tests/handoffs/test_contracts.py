"""Contracts: what a caller gave is kept as it came, or refused by path with what to do instead."""

import datetime
import enum
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.clock import micros
from outlast.errors import HandoffInvalid
from outlast.handoffs.contract import contract_of, draft_of, expiry
from outlast.handoffs.handoff import (
    MAX_BYTES,
    STALE_SECONDS,
    CommandCheck,
    Contract,
    FileRule,
    Handoff,
    Lint,
    command_of,
    decode_handoff,
    encode_handoff,
    rule_of,
)
from outlast.values.text import duration

UTC = datetime.UTC
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)


class Name(str):
    __slots__ = ()


class Level(enum.IntEnum):
    LOW = 1


def contract(**given: Any) -> Contract:
    return contract_of(**{"anchor": "task:export", "summary": "Diagnosed", "handoff_text": "Go on.", **given})


def refusal(**given: Any) -> HandoffInvalid:
    with pytest.raises(HandoffInvalid) as refused:
        contract(**given)
    assert refused.value.remedy
    return refused.value


def stored(given: Contract) -> Handoff:
    """The contract as it comes back after it was written."""
    values = {name: getattr(given, name) for name in given.__struct_fields__}
    more = {"id": "h", "scope": "s", "revision": 1, "actor": "a", "stored_us": 0, "expires_us": 0, "lint": Lint(100)}
    return decode_handoff(encode_handoff(Handoff(**values, **more)))


# -- the whole ---------------------------------------------------------------------------------------


def test_the_call_of_the_reference_page_works_word_for_word() -> None:
    found = contract_of(
        anchor="task:export-repair",
        summary="Pause after diagnosis",
        handoff_text="Resume in src/routes/export.ts and patch the serializer mismatch.",
        target_files=["src/routes/export.ts"],
        next_action="Patch the export serializer and rerun the relevant checks.",
        acceptance_checks=["npm run -s test:lite -- export"],
    )
    assert found.target_files == ("src/routes/export.ts",)
    assert found.handoff_kind == "task_handoff"
    assert found.entry == ("src/routes/export.ts", "")


def test_every_field_comes_back_as_it_was_given() -> None:
    given: dict[str, Any] = {
        "target_files": ("a b/ü 'quoted'.py", "src/", "."),
        "next_action": "Patch\nit 😀",
        "acceptance_checks": ["make", {"run": "x", "cwd": "sub", "timeout": "90s", "exit": 3}],
        "must_change": ["the serializer", {"file": "a", "contains": "x"}],
        "must_remove": [{"file": "old", "absent": True}],
        "must_keep": ({"file": "LICENSE", "sha256": "A" * 64},),
        "rollback": ["git revert"],
        "repo_root": "/somewhere/repo",
        "file_path": "src/a.py",
        "symbol": "serialize",
        "risk": "high",
        "tags": ["export"],
        "environment": ["poetry.lock"],
        "expires": "7d",
        "supersedes": "task:older",
        "handoff_kind": "patch",
    }
    back = stored(contract(**given))
    for name, value in given.items():
        assert getattr(back, name) == (tuple(value) if isinstance(value, list) else value), name


def test_every_field_of_a_contract_can_be_given() -> None:
    from outlast.handoffs.contract import _READERS

    assert list(_READERS) == list(Contract.__struct_fields__)


@pytest.mark.parametrize("name", ["anchor", "summary", "handoff_text"])
def test_a_missing_first_field_is_named(name: str) -> None:
    given = {"anchor": "a", "summary": "s", "handoff_text": "t"}
    del given[name]
    with pytest.raises(HandoffInvalid, match=f"{name}: is missing"):
        contract_of(**given)


def test_an_unknown_field_is_refused_with_the_nearest_known_one() -> None:
    found = refusal(traget_files=["a"])
    assert (found.path, found.remedy) == ("traget_files", "did you mean `target_files`?")
    assert "acceptance_checks" in refusal(zzz=1).remedy


def test_a_record_of_exactly_the_limit_passes_and_one_byte_more_is_refused() -> None:
    rest = MAX_BYTES - len(encode_handoff(contract()))
    filled = "Go on." + "x" * rest
    assert len(encode_handoff(contract(handoff_text=filled))) == MAX_BYTES
    found = refusal(handoff_text=filled + "x")
    assert found.path == "handoff_text"
    assert "1,048,577 bytes" in found.why
    assert f"{len(filled) + 3:,}" in found.why


def test_the_largest_field_is_named_whichever_it_is() -> None:
    assert refusal(execution_state_v1={"log": "x" * MAX_BYTES}).path == "execution_state_v1"
    assert refusal(must_keep=["x" * 10_000] * 200).path == "must_keep"


def test_a_callers_later_change_does_not_reach_the_contract() -> None:
    check = {"run": "make"}
    rule = {"file": "a", "exists": True}
    found = contract(acceptance_checks=[check, rule])
    check["run"], rule["file"] = "rm -rf x", "b"
    assert found.acceptance_checks == ({"run": "make"}, {"file": "a", "exists": True})


def test_a_draft_may_lack_what_a_handoff_needs_but_not_be_wrong() -> None:
    assert draft_of() == draft_of(anchor="", summary="", handoff_text="")
    assert draft_of(summary="s", target_files=["a"]).target_files == ("a",)
    with pytest.raises(HandoffInvalid, match=r"target_files\[0\]"):
        draft_of(target_files=["../a"])
    with pytest.raises(HandoffInvalid, match="anchor: has blanks"):
        draft_of(anchor=" a")


# -- text --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("anchor", ["a", "x" * 500, "task:é 😀 'quoted' \"x\"", "branch:feature/a b"])
def test_an_anchor_is_one_printable_line(anchor: str) -> None:
    assert contract(anchor=anchor).anchor == anchor


@pytest.mark.parametrize(
    "anchor",
    ["", " ", " a", "a ", "a\n", "a\nb", "a\0b", "a\x1b[0m", "x" * 501, "\ud800", "a\u200b", 3, None, b"a", Name("a")],
)
def test_an_anchor_that_could_not_be_asked_for_again_is_refused(anchor: Any) -> None:
    assert refusal(anchor=anchor).path == "anchor"


def test_a_blank_handoff_text_needs_a_next_action() -> None:
    assert contract(handoff_text="", next_action="Patch it.").handoff_text == ""
    assert refusal(handoff_text="").path == "handoff_text"
    assert refusal(handoff_text=" \n").path == "handoff_text"


@pytest.mark.parametrize(
    "name", ["summary", "next_action", "symbol", "risk", "repo_root", "handoff_kind", "supersedes"]
)
def test_a_text_that_says_nothing_or_cannot_be_kept_is_refused(name: str) -> None:
    for value in ("", " \n", "a\0b", "a\udfff", 1, ["a"], {"a": 1}):
        assert refusal(**{name: value}).path == name


def test_long_text_of_any_kind_is_kept() -> None:
    long = "é😀\n\"'\\ ../" * 1_000
    assert stored(contract(summary=long, handoff_text=long, next_action=long)).next_action == long


def test_nothing_supersedes_itself() -> None:
    assert refusal(supersedes="task:export").path == "supersedes"


@given(text)
def test_any_text_comes_back_as_it_was_or_is_refused(value: str) -> None:
    if value.strip():
        assert stored(contract(summary=value)).summary == value
    else:
        assert refusal(summary=value).why == "is blank"


# -- lists -------------------------------------------------------------------------------------------

LISTS = [
    "target_files",
    "environment",
    "acceptance_checks",
    "must_change",
    "must_remove",
    "must_keep",
    "rollback",
    "tags",
]


@pytest.mark.parametrize("name", LISTS)
def test_a_bare_text_where_a_list_is_expected_is_refused(name: str) -> None:
    found = refusal(**{name: "make test"})
    assert (found.path, found.remedy) == (name, f"put it into a list: {name}=[…]")


@pytest.mark.parametrize("name", LISTS)
def test_what_is_no_list_is_refused(name: str) -> None:
    for value in (None, {"a": 1}, {"a"}, 3, iter(["a"])):
        assert refusal(**{name: value}).path == name


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_taken_whole_up_to_its_limit_and_never_cut(name: str) -> None:
    limit = 100 if name == "tags" else 200
    full = [f"entry-{number}" for number in range(limit)]
    assert getattr(contract(**{name: full}), name) == tuple(full)
    why = refusal(**{name: [*full, "one-more"]}).why
    assert f"{limit + 1} entries" in why
    assert f"at most {limit}" in why


@pytest.mark.parametrize("name", LISTS)
def test_a_wrong_entry_is_refused_by_its_place(name: str) -> None:
    for value in ("", 3, None, "a\0b", "\ud800", [["a"]], b"a"):
        assert refusal(**{name: ["a", "b", "c", value]}).path == f"{name}[3]"


def test_a_tag_has_at_most_200_characters() -> None:
    assert contract(tags=["x" * 200]).tags == ("x" * 200,)
    assert refusal(tags=["x" * 201]).path == "tags[0]"


# -- paths -------------------------------------------------------------------------------------------

PATHS: list[tuple[str, Any]] = [
    ("target_files[0]", lambda path: {"target_files": [path]}),
    ("environment[0]", lambda path: {"environment": [path]}),
    ("file_path", lambda path: {"file_path": path}),
    ("must_keep[0].file", lambda path: {"must_keep": [{"file": path, "exists": True}]}),
    ("acceptance_checks[0].cwd", lambda path: {"acceptance_checks": [{"run": "x", "cwd": path}]}),
]


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("/etc/passwd", "relative to repo_root"),
        ("~/x", "relative to repo_root"),
        ("C:\\x", "relative to repo_root"),
        ("..", "inside repo_root"),
        ("../x", "inside repo_root"),
        ("a/../../x", "inside repo_root"),
        (".git/config", "a file of the work"),
        ("sub/.GIT", "a file of the work"),
        (".outlast/default/outlast.db", "a file of the work"),
        ("./a", "write 'a'"),
        ("a//b", "write 'a/b'"),
        ("a/./b", "write 'a/b'"),
        ("a/../b", "write 'b'"),
        ("./", "write '.'"),
        ("a//", "write 'a'"),
        ("", "say something"),
        ("  ", "say something"),
        ("a\nb", "rename the file"),
        ("a\x7f", "rename the file"),
        ("a\0b", "take it out"),
        ("a\udc80", "UTF-8"),
        ("x" * 256, "255 bytes"),
        ("é" * 128, "255 bytes"),
        ("abc/" * 1_025, "4,096"),
    ],
)
def test_a_path_that_is_not_plainly_inside_the_root_is_refused(path: str, remedy: str) -> None:
    for where, fields in PATHS:
        found = refusal(**fields(path))
        assert found.path == where
        assert remedy in found.remedy


@pytest.mark.parametrize(
    "path", ["a", "a/", ".", "..a/b..", "...", ".github/x", "a b/'\"😀", " a", "x" * 255, "a\\b", "-rf"]
)
def test_an_odd_name_inside_the_root_is_taken(path: str) -> None:
    assert contract(target_files=[path], file_path=path).target_files == (path,)


def test_a_file_is_named_once() -> None:
    found = refusal(target_files=["a", "b", "c", "a"])
    assert (found.path, found.why) == ("target_files[3]", "is the same file as target_files[0]")
    assert refusal(environment=["src", "src/"]).path == "environment[1]"
    assert contract(target_files=["a"], environment=["a"]).environment == ("a",)


@given(st.lists(st.sampled_from(["a", "b", ".", "..", "", "/", ".git", "ü"]), max_size=5).map("/".join))
def test_whatever_path_is_taken_is_canonical_and_inside(path: str) -> None:
    try:
        taken = contract(file_path=path).file_path
    except HandoffInvalid:
        return
    parts = str(taken).removesuffix("/").split("/")
    assert taken == path
    assert parts == ["."] or not {"", ".", "..", ".git"} & set(parts)


# -- checks, musts and rollback ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "command"),
    [
        ("make test", CommandCheck("make test")),
        ({"run": "make"}, CommandCheck("make")),
        ({"run": "make", "timeout": 5}, CommandCheck("make", timeout_seconds=5.0)),
        ({"run": "make", "timeout": 0.5}, CommandCheck("make", timeout_seconds=0.5)),
        ({"run": "make", "timeout": "90s"}, CommandCheck("make", timeout_seconds=90.0)),
        ({"run": "make", "timeout": "10m"}, CommandCheck("make", timeout_seconds=600.0)),
        ({"run": "make", "timeout": "2h", "cwd": "sub/x", "exit": 255}, CommandCheck("make", "sub/x", 7200.0, 255)),
    ],
)
def test_a_check_that_is_a_command(form: Any, command: CommandCheck) -> None:
    (kept,) = contract(acceptance_checks=[form]).acceptance_checks
    assert kept == form
    assert command_of(kept) == command
    assert rule_of(kept) is None


@pytest.mark.parametrize(
    ("form", "rule"),
    [
        ({"file": "a", "exists": True}, FileRule("a", "exists")),
        ({"absent": True, "file": "a"}, FileRule("a", "absent")),
        ({"file": "a", "sha256": "AB" * 32}, FileRule("a", "sha256", "ab" * 32)),
        ({"file": "a", "contains": " x\n"}, FileRule("a", "contains", " x\n")),
    ],
)
@pytest.mark.parametrize("name", ["acceptance_checks", "must_change", "must_remove", "must_keep", "rollback"])
def test_a_file_rule_is_taken_everywhere(name: str, form: Any, rule: FileRule) -> None:
    (kept,) = getattr(contract(**{name: [form]}), name)
    assert kept == form
    assert rule_of(kept) == rule
    assert command_of(kept) is None


def test_prose_is_no_file_rule() -> None:
    assert rule_of("keep the tests green") is None


@pytest.mark.parametrize(
    ("form", "path", "says"),
    [
        ({"run": "x", "timeout": 0}, ".timeout", "above 0"),
        ({"run": "x", "timeout": -1}, ".timeout", "above 0"),
        ({"run": "x", "timeout": "soon"}, ".timeout", "90s"),
        ({"run": "x", "timeout": True}, ".timeout", "90s"),
        ({"run": "x", "timeout": float("nan")}, ".timeout", "90s"),
        ({"run": "x", "timeout": float("inf")}, ".timeout", "90s"),
        ({"run": "x", "timeout": 10**5000}, ".timeout", "90s"),
        ({"run": "x", "timeout": None}, ".timeout", "90s"),
        ({"run": "x", "exit": 256}, ".exit", "0 to 255"),
        ({"run": "x", "exit": -1}, ".exit", "0 to 255"),
        ({"run": "x", "exit": True}, ".exit", "0 to 255"),
        ({"run": "x", "exit": "0"}, ".exit", "0 to 255"),
        ({"run": "x", "exit": Level.LOW}, ".exit", "0 to 255"),
        ({"run": " "}, ".run", "say something"),
        ({"run": ["make"]}, ".run", "plain text"),
        ({"run": "x", "timeuot": 3}, ".timeuot", "did you mean `timeout`?"),
        ({"run": "x", "a b": 3}, "['a b']", "the keys here are"),
        ({"run": "x", 3: 3}, "", "text keys"),
        ({"run": "x", "file": "a"}, "", "two checks"),
        ({"run": "x", "contains": "a"}, ".contains", "the keys here are"),
        ({"file": "a", "exists": False}, ".exists", '"absent": true'),
        ({"file": "a", "absent": False}, ".absent", '"exists": true'),
        ({"file": "a", "exists": 1}, ".exists", '"exists": true'),
        ({"file": "a", "sha256": "abc"}, ".sha256", "sha256sum"),
        ({"file": "a", "sha256": "g" * 64}, ".sha256", "sha256sum"),
        ({"file": "a", "sha256": "a" * 64 + "\n"}, ".sha256", "sha256sum"),
        ({"file": "a", "contains": ""}, ".contains", "must contain"),
        ({"file": "a", "contains": 3}, ".contains", "plain text"),
        ({"file": "a"}, "", "give one of"),
        ({"file": "a", "exists": True, "contains": "x"}, "", "give one of"),
        ({"file": 3, "exists": True}, ".file", "plain text"),
        ({"cmd": "make"}, ".cmd", "did you mean"),
        ({}, "", "a shell command"),
        (3, "", "a shell command"),
        (["make"], "", "a shell command"),
    ],
)
def test_a_wrong_check_is_refused_by_path(form: Any, path: str, says: str) -> None:
    found = refusal(acceptance_checks=["make", form])
    assert found.path == f"acceptance_checks[1]{path}"
    assert says in found.remedy


@pytest.mark.parametrize("name", ["must_change", "must_remove", "must_keep", "rollback"])
def test_a_command_among_the_musts_is_pointed_to_the_checks(name: str) -> None:
    found = refusal(**{name: [{"run": "make"}]})
    assert (found.path, found.remedy) == (f"{name}[0].run", "put the command into acceptance_checks")
    assert refusal(**{name: [{"fiel": "a"}]}).remedy == "did you mean `file`?"


# -- packets -----------------------------------------------------------------------------------------

PACKETS = [
    b'{"b":1,"a":2}',
    b'{ "a" :\n\t[ 1 , 2 ] }',
    b'{"a":1.50,"b":1E5,"c":-0.0,"d":1e-400}',
    b'{"a":123456789012345678901234567890}',
    b'{"a":1,"a":2,"a":[{"b":1,"b":1}]}',
    b'{"a":"\\u00e9\\ud83d\\ude00\\/\\u0000","\\u0061":"\xc3\xa9"}',
    b"{}",
]


@pytest.mark.parametrize("name", ["execution_state_v1", "execution_packet_v1"])
@pytest.mark.parametrize("raw", PACKETS)
def test_a_packet_given_as_json_comes_back_byte_for_byte(name: str, raw: bytes) -> None:
    for given_as in (raw, msgspec.Raw(raw), raw.decode()):
        assert bytes(getattr(stored(contract(**{name: given_as})), name)) == raw


def test_blanks_around_a_packet_are_no_part_of_it() -> None:
    found = contract(execution_state_v1=b' \n{"a": 1}\r\n')
    assert found.execution_state_v1 is not None
    assert bytes(found.execution_state_v1) == b'{"a": 1}'
    assert stored(found).state == {"a": 1}


@given(st.dictionaries(text, st.none() | st.integers() | text | st.lists(text, max_size=3), max_size=4))
def test_a_packet_given_as_a_value_comes_back_equal(value: dict[str, Any]) -> None:
    assert stored(contract(execution_packet_v1=value)).packet == value
    spaced = json.dumps(value, indent=2)
    assert bytes(stored(contract(execution_packet_v1=spaced)).execution_packet_v1 or b"") == spaced.encode()


@pytest.mark.parametrize(
    ("value", "path", "says"),
    [
        ({"a": [1, (1, 2)]}, "['a'][1]", "come back as list"),
        ({"a": float("nan")}, "['a']", "no JSON form"),
        ({"a": {1: 2}}, "['a']", "no text"),
        ({"a": b"x"}, "['a']", "bytes"),
        ({"a": object()}, "['a']", "live object"),
        ({"a": "\ud800"}, "['a']", "surrogates"),
        ({"a": Level.LOW}, "['a']", "come back as int"),
        ([1], "", "a list"),
        (3, "", "a number"),
        (b"[1]", "", "a list"),
        ("null", "", "null"),
        (b"", "", "ends too early"),
        (b'{"a":1', "", "ends too early, at line 1, byte 7"),
        (b'{"a":1,\n "b":}', "", "line 2, byte 6"),
        (b'{"a":1,}', "", "trailing comma"),
        (b"{} {}", "", "trailing characters at line 1, byte 5"),
        (b'{"a":NaN}', "", "line 1, byte 6"),
        (b'{"a":1e400}', "", "no reader can hold"),
        (b'{"a":"\\ud83d"}', "", "half a surrogate pair at line 1, byte 7"),
        (b'{"a":"\\\\\\ud83d"}', "", "half a surrogate pair at line 1, byte 9"),
        (b'{"a":"x\xff"}', "", "no UTF-8 at line 1, byte 8"),
        (b'\xef\xbb\xbf{"a":1}', "", "line 1, byte 1"),
        (b'{"a":' + b"[" * 200 + b"]" * 200 + b"}", "", "nested 201 deep"),
        (b'{"a":' + b"[" * 200 + b"]" * 200 + b',"a":1}', "", "nested 201 deep"),
        (b'{"a":' + b"[" * 100_000, "", "nested too deeply"),
    ],
)
def test_what_would_not_come_back_as_one_json_object_is_refused(value: Any, path: str, says: str) -> None:
    found = refusal(execution_state_v1=value)
    assert found.path == f"execution_state_v1{path}"
    assert says in found.why


def test_brackets_in_text_are_no_nesting() -> None:
    raw = json.dumps({"a": "[{" * 500, "b": '"\\[['}).encode()
    assert bytes(contract(execution_state_v1=raw).execution_state_v1 or b"") == raw


def test_a_packet_as_deep_as_the_limit_can_be_read() -> None:
    raw = b'{"a":' + b"[" * 199 + b"]" * 199 + b"}"
    assert stored(contract(execution_state_v1=raw)).state is not None


# -- expires -----------------------------------------------------------------------------------------

AT = micros(datetime.datetime(2026, 1, 1, tzinfo=UTC))
HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("given", "kept", "after"),
    [
        (None, None, STALE_SECONDS * 1_000_000),
        ("7d", "7d", 168 * HOUR),
        ("36h", "36h", 36 * HOUR),
        ("90m", "90m", 90 * 60_000_000),
        (90, "90s", 90_000_000),
        (0.5, "0.500000s", 500_000),
        (datetime.timedelta(hours=1), "3600s", HOUR),
        (datetime.timedelta(microseconds=1), "0.000001s", 1),
        ("2026-01-01T01:00:00Z", "2026-01-01T01:00:00Z", HOUR),
        ("2026-01-01T01:00:00+01:00", "2026-01-01T01:00:00+01:00", 0),
        ("2025-12-31T23:00:00+00:00", "2025-12-31T23:00:00+00:00", -HOUR),
        ("2026-01-01", "2026-01-01", 24 * HOUR),
        (datetime.date(2026, 1, 2), "2026-01-02", 48 * HOUR),
        (datetime.datetime(2026, 1, 1, 1, tzinfo=UTC), "2026-01-01T01:00:00+00:00", HOUR),
    ],
)
def test_a_time_to_expire_is_kept_as_text_and_read_as_a_moment(given: Any, kept: str | None, after: int) -> None:
    expires = contract(expires=given).expires
    assert expires == kept
    assert expiry(expires, AT) == AT + after


@pytest.mark.parametrize(
    "expires",
    [
        *(
            "",
            "soon",
            "7",
            "20260101",
            " 7d",
            "7d ",
            "0s",
            "-1d",
            "2026-13-01",
            "2026-01-01T00:00:00",
            "٣",
            "9" * 400 + "d",
        ),
        *("9999-12-31", "0001-01-01T00:00:00+14:00", "a\0b", "1e3s"),
        *(0, -1, True, float("nan"), float("inf"), 10**400, datetime.timedelta(0), datetime.timedelta(days=-1)),
        *(datetime.datetime(2026, 1, 1), [], {}, b"7d", datetime.time(1)),
    ],
)
def test_what_is_no_time_is_refused(expires: Any) -> None:
    assert refusal(expires=expires).path == "expires"


def test_a_moment_without_offset_is_refused_with_the_one_that_has_it() -> None:
    assert "'2026-01-01T00:00:00Z'" in refusal(expires="2026-01-01T00:00:00").remedy


@given(st.integers(1, 10**15))
def test_a_timedelta_expires_to_the_microsecond(microseconds: int) -> None:
    expires = contract(expires=datetime.timedelta(microseconds=microseconds)).expires
    assert expiry(expires, 0) == microseconds


@pytest.mark.parametrize(
    ("value", "seconds"), [("90s", 90), ("1.5h", 5400), (3, 3), ("250ms", 0.25), ("x", None), (True, None)]
)
def test_durations_are_read_the_same_everywhere(value: Any, seconds: float | None) -> None:
    assert duration(value) == seconds
