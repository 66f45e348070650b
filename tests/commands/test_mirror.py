"""The mirror: receipts and handoffs as files, named so that nothing is lost, written whole, never read back."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from msgspec.structs import replace

from outlast import Outlast, Run, flow, step
from outlast.commands import mirrors
from outlast.commands.mirror import Mirror, _Counted, _Folder, iterated, safe, write_mirror
from outlast.home.home import run_row
from outlast.home.settings import Settings
from outlast.python.decorators import flow_file
from outlast.runs.call import id_of
from outlast.runs.receipt import Envelope, Receipt

from ..kit.commands import wait_until
from ..kit.ledgers import change

HOSTILE = [
    "a/b",
    "..",
    ".",
    "../../etc/passwd",
    'it\'s "so"',
    "🦀 crab",
    "-",
    "~",
    "%41",
    "a\nb",
    "a\0b",
    "",
    "é" * 5_000,
]


@pytest.fixture
def outlast(tmp_path: Path) -> Iterator[Outlast]:
    with Outlast(tmp_path / ".outlast") as made:
        yield made


def a_receipt(step: str = "plan", **more: Any) -> Receipt:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    known: dict[str, Any] = dict.fromkeys(
        ("blob", "key", "mark", "code_digest", "trace_id", "hash", "agent", "scope"), ""
    )
    envelope = Envelope("done", "", (), {})
    made = Receipt(
        run_id="r",
        flow="f",
        step=step,
        label=step,
        kind="step",
        occurrence=0,
        seq=1,
        attempt=1,
        status="succeeded",
        delivered=True,
        started_at=at,
        ended_at=at,
        input_digest="",
        result=None,
        error=None,
        artifacts=(),
        epoch=1,
        envelope=envelope,
        **known,
    )
    return replace(made, **more)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def run_file(outlast: Outlast, tmp_path: Path, steps: str, **inputs: Any) -> Any:
    (tmp_path / "flow.yaml").write_text(f"flow: build\nsteps:\n{textwrap.indent(textwrap.dedent(steps), '  ')}")
    return outlast.run(flow_file("flow.yaml", tmp_path), **inputs)


def mirror_of(outlast: Outlast, run_id: str) -> Path:
    return outlast.mirror(run_id, write=False)


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_name_is_one_short_part_of_a_path(tmp_path: Path, name: str) -> None:
    part = safe(name)
    assert Path(part).name == part
    assert not part.startswith(".")
    (tmp_path / f"{part}-{part}.10000.json").write_text("there")
    assert len(names(tmp_path)) == 1


def test_two_names_never_become_one() -> None:
    long = "é" * 5_000
    every = [*HOSTILE, long + "x", safe(long), safe("a/b"), "%", "%00", "\ud800"]
    assert len({safe(name) for name in every}) == len(set(every))


def test_a_step_and_an_agent_that_read_alike_have_files_of_their_own(tmp_path: Path) -> None:
    alike = [a_receipt("a-b", agent="c"), a_receipt("a", agent="b-c", seq=2)]
    _Folder(tmp_path, iterated).write(alike)
    kept = {path.name: json.loads(path.read_text())["step"] for path in (tmp_path / "receipts").iterdir()}
    assert kept == {"a-b-c.json": "a-b", "a-b-c%-3.json": "a"}


def test_a_later_call_of_a_python_step_has_its_number() -> None:
    name = _Counted()
    found = [a_receipt("find", label=label) for label in ("find", "find~2", "m[0]/find", "find~2")]
    assert [name(each) for each in found] == ["find", "find~2", "find~3", "find~2"]


def test_conditions_of_two_loops_do_not_share_a_file() -> None:
    places = [
        ("fix[1]/", "until"),
        ("test[1]/", "until"),
        ("fix[2]/", "until"),
        ("fix[1]/types/", "when"),
        ("x/", "when"),
    ]
    assert [iterated(a_receipt(step, scope=scope)) for scope, step in places] == [
        "fix@until",
        "test@until",
        "fix@until~2",
        "types@when",
        "x@when",
    ]


# -- attempts --------------------------------------------------------------------------------------


def attempts(*numbers: int, **more: Any) -> list[Receipt]:
    moments = [datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in range(len(numbers))]
    return [
        a_receipt(attempt=number, seq=seq, started_at=moment, **more)
        for seq, (number, moment) in enumerate(zip(numbers, moments, strict=True), 1)
    ]


def by_name(folder: Path) -> dict[str, int]:
    return {path.name: json.loads(path.read_text())["seq"] for path in (folder / "receipts").iterdir()}


def test_earlier_attempts_keep_their_numbers(tmp_path: Path) -> None:
    _Folder(tmp_path, iterated).write(attempts(1, 2, 3))
    assert by_name(tmp_path) == {"plan-main.1.json": 1, "plan-main.2.json": 2, "plan-main.json": 3}


def test_attempts_that_begin_anew_after_a_rewind_lose_none(tmp_path: Path) -> None:
    _Folder(tmp_path, iterated).write(attempts(1, 2, 1, 2))
    found = {f"plan-main.{number}.json": number for number in (1, 2, 3)}
    assert by_name(tmp_path) == found | {"plan-main.json": 4}


def test_an_attempt_that_only_began_is_written_when_the_next_one_is_there(tmp_path: Path) -> None:
    folder, (first, second) = _Folder(tmp_path, iterated), attempts(1, 2)
    folder.write([replace(first, status="started", delivered=False)])
    assert not (tmp_path / "receipts").exists()
    folder.write([second])
    assert by_name(tmp_path) == {"plan-main.1.json": 1, "plan-main.json": 2}


def test_the_outcome_of_an_attempt_replaces_its_start(tmp_path: Path) -> None:
    folder, (first,) = _Folder(tmp_path, iterated), attempts(1)
    folder.write([replace(first, status="started", delivered=False)])
    folder.write([replace(first, seq=9)])
    assert by_name(tmp_path) == {"plan-main.json": 9}


# -- live, of commands -----------------------------------------------------------------------------


def test_a_flow_of_commands_has_its_mirror_while_it_runs(outlast: Outlast, tmp_path: Path) -> None:
    outcome = run_file(
        outlast,
        tmp_path,
        """\
        - {id: plan, agent: planner, run: "echo one", writes: [plan.md]}
        - {id: look, run: "ls .outlast/runs/*/build/*/ > seen"}
        """,
    )
    assert outcome.status == "succeeded"
    assert (tmp_path / "seen").read_text().count("plan-planner.json") == 2
    kept = json.loads((mirror_of(outlast, outcome.run_id) / "receipts" / "plan-planner.json").read_text())
    assert (kept["flow"], kept["facts"]["exit"], kept["facts"]["transcript"]) == (
        "flow.yaml:build",
        0,
        {"text": "one\n"},
    )
    handed = json.loads((mirror_of(outlast, outcome.run_id) / "handoffs" / "look-main.json").read_text())
    assert (handed["step"], handed["agent"], handed["status"]) == ("look", "main", "succeeded")


def test_attempts_and_iterations_of_commands_have_files_of_their_own(outlast: Outlast, tmp_path: Path) -> None:
    outcome = run_file(
        outlast,
        tmp_path,
        """\
        - {id: flaky, run: "test $OUTLAST_ATTEMPT = 2", retries: 1}
        - id: fix
          repeat: {max: 3, until: "test $OUTLAST_ITERATION = 2", steps: [{id: author, run: "true"}]}
        - id: test
          repeat: {max: 3, until: "true", steps: [{id: critic, run: "true"}]}
        """,
    )
    assert outcome.status == "succeeded"
    folder = mirror_of(outlast, outcome.run_id)
    assert names(folder / "receipts") == sorted(
        [
            *("flaky-main.1.json", "flaky-main.json", "author-main.json", "author~2-main.json", "critic-main.json"),
            *(
                "fix@until-main.json",
                "fix@until~2-main.json",
                "test@until-main.json",
                "fix-main.json",
                "test-main.json",
            ),
        ]
    )
    assert "fix@until-main.json" not in names(folder / "handoffs")
    live = {path.name: path.read_bytes() for path in (folder / "receipts").iterdir()}
    outlast.mirror(outcome.run_id)
    assert {path.name: path.read_bytes() for path in (folder / "receipts").iterdir()} == live


def test_a_mirror_that_cannot_be_written_is_a_note_and_the_run_goes_on(outlast: Outlast, tmp_path: Path) -> None:
    (outlast.home / "runs").write_text("in the way")
    notes: list[str] = []
    outlast.listen(None, notes.append)
    outcome = run_file(outlast, tmp_path, '- {id: a, run: "true"}\n- {id: b, run: "true"}\n')
    assert outcome.status == "succeeded"
    assert [f"export {outcome.run_id} --mirror" in note for note in notes if "mirror" in note] == [True]


def test_what_somebody_wrote_into_the_mirror_changes_nothing(outlast: Outlast, tmp_path: Path) -> None:
    outcome = run_file(outlast, tmp_path, '- {id: a, run: "true"}\n- {id: b, run: "test -f go"}\n')
    folder = mirror_of(outlast, outcome.run_id) / "receipts"
    (folder / "a-main.json").unlink()
    os.mkfifo(folder / "a-main.json")  # whoever opened it to read would wait for ever
    (folder / "b-main.json").write_text('{"attempt": 7, "status": "succeeded", "delivered": true}')
    (tmp_path / "go").touch()
    assert outlast.resume(outcome.run_id).status == "succeeded"
    kept = {name: json.loads((folder / name).read_text())["attempt"] for name in names(folder)}
    assert kept == {"a-main.json": 1, "b-main.1.json": 1, "b-main.json": 2}


# -- of Python flows -------------------------------------------------------------------------------


@step(agent="../..", name='say "x" 🦀')
def say(word: str) -> str:
    return word


@flow
def talk(run: Run) -> list[str]:
    return [say(word) for word in ("a", "b")]


@step
def look_at(home: str, run_id: str) -> list[str]:
    """What the mirror has of the steps before, as soon as it has them."""
    there = Path(home) / "runs" / run_id / "watched" / "handoffs"
    wait_until(lambda: there.is_dir() and len([*there.glob("*.json")]) == 2, "the mirror of two steps")
    return sorted(path.name for path in there.iterdir() if not path.name.startswith("."))


@flow
def watched(run: Run, home: str) -> list[str]:
    say("a")
    say("b")
    return look_at(home, run.id)


def test_a_python_flow_has_its_mirror_while_it_runs(tmp_path: Path) -> None:
    home = tmp_path / ".outlast"
    with Outlast(home, settings=Settings(mirror_seconds=0.02)) as outlast:
        outcome = outlast.run(watched, str(home))
    assert len(outcome.result) == 2


@flow(name="talk")
def talks(run: Run) -> list[str]:
    return [say(f"{number % 40}") for number in range(64)]


def test_a_python_flows_mirror_is_as_the_journal_when_its_home_is_closed(tmp_path: Path) -> None:
    with Outlast(tmp_path / ".outlast", settings=Settings(mirror_seconds=0.001)) as outlast:
        run_id = outlast.run(talks).run_id
        folder = mirror_of(outlast, run_id)
    written = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.json")}
    assert len(written) == 2 * 64
    with Outlast(tmp_path / ".outlast") as outlast:
        outlast.mirror(run_id)
    assert written == {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.json")}


def test_while_steps_follow_each_other_quickly_the_mirror_hardly_works(tmp_path: Path) -> None:
    assert mirrors.rest_seconds(0.02, 30, 1.0) == pytest.approx(0.18)
    assert mirrors.rest_seconds(0.02, 30, 0.1) == pytest.approx(0.18)  # a short while says nothing
    assert mirrors.rest_seconds(0.02, 1_500, 1.0) == pytest.approx(2.0)
    assert mirrors.rest_seconds(0.02, 1_500, 60.0) == pytest.approx(0.18)
    with Outlast(tmp_path / ".outlast", settings=Settings(mirror_seconds=60)) as outlast:
        followed = outlast._executor.live.mirrors
        assert isinstance(followed, mirrors.Mirrors)
        before = followed._length()
        outlast.run(talks)
        assert followed._length() - before == 64 + 2  # also its begin and its end


def test_the_first_look_waits_while_steps_follow_each_other_quickly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "BUSY_ENTRIES", -1)  # it is never quiet
    with Outlast(tmp_path / ".outlast", settings=Settings(mirror_seconds=0.001)) as outlast:
        run_id = outlast.run(talks).run_id
        followed = outlast._executor.live.mirrors
        assert isinstance(followed, mirrors.Mirrors)
        assert followed._followed == {run_id: None}  # not looked at yet
        folder = mirror_of(outlast, run_id)
    assert len([*folder.rglob("*.json")]) == 2 * 64  # when the home is closed, all the same


def test_many_mirrors_that_are_behind_are_written_by_turns_and_not_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "PIECE", 50)
    with Outlast(tmp_path / ".outlast", settings=Settings(mirror_seconds=60)) as outlast:
        runs = [outlast.run(talks).run_id for _ in range(3)]
        followed = outlast._executor.live.mirrors
        assert isinstance(followed, mirrors.Mirrors)

        def written() -> list[int]:
            return [len([*mirror_of(outlast, run_id).rglob("*.json")]) for run_id in runs]

        behind = [followed._look(0.0) for _ in range(3)]  # time for one of them each
        assert [len(each) for each in behind] == [3, 3, 3]
        assert min(written()) > 50
        assert followed._look() == set()
        assert written() == [2 * 64] * 3
        assert followed._followed == {}


def test_a_mirror_of_very_many_steps_is_written_for_so_long_as_anybody_would_wait_and_what_is_left_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "CLOSING_SECONDS", 0.0)
    monkeypatch.setattr(mirrors, "PIECE", 10)
    told: list[str] = []
    with Outlast(tmp_path / ".outlast", settings=Settings(mirror_seconds=60)) as outlast:
        outlast.listen(None, told.append)
        run_id = outlast.run(talks).run_id
        folder = mirror_of(outlast, run_id)
    assert [run_id in line and "export RUN --mirror" in line for line in told] == [True]
    assert 0 < len(list(folder.rglob("*.json"))) < 2 * 64
    with Outlast(tmp_path / ".outlast") as outlast:
        outlast.mirror(run_id)
    assert len(list(folder.rglob("*.json"))) == 2 * 64


@step
def longer(before: str, number: int) -> str:
    return f"{number:04}" + "x" * 100


@flow
def passes_on(run: Run, steps: int) -> None:
    result = ""
    for number in range(steps):
        result = longer(result, number)


def test_a_mirror_finds_out_once_what_each_call_is_named_by_however_often_it_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "PIECE", 10)
    made: list[str] = []

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is id_of.__code__:
            made.append(frame.f_locals["call"])

    outlast = Outlast(tmp_path / ".outlast", settings=Settings(mirror_seconds=60))
    run_id = outlast.run(passes_on, 60).run_id
    folder = mirror_of(outlast, run_id)
    sys.setprofile(look)
    try:
        outlast.close()
    finally:
        sys.setprofile(None)
    last = json.loads((folder / "receipts" / "longer~60-main.json").read_bytes())
    assert last["inputs"]["before"]["result_of"] == "longer~59"
    assert max(Counter(made).values()) <= 2  # for its own receipt, and for those that name it


def test_mirrors_of_very_many_runs_are_written_for_no_longer_than_that_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "CLOSING_SECONDS", 0.0)
    told: list[str] = []
    with Outlast(tmp_path / ".outlast", settings=Settings(mirror_seconds=60)) as outlast:
        outlast.listen(None, told.append)
        runs = [outlast.run(talks).run_id for _ in range(5)]
        folders = [mirror_of(outlast, run_id) for run_id in runs]
    assert [folder.exists() for folder in folders] == [True, False, False, False, False]
    assert ["the mirrors of 4 runs (" in line and "export RUN --mirror" in line for line in told] == [True]


def test_the_first_look_of_a_mirror_tells_what_is_damaged_anywhere_in_the_journal(tmp_path: Path) -> None:
    home = tmp_path / ".outlast"
    with Outlast(home, settings=Settings(mirror_seconds=0)) as outlast:
        run_id = outlast.run(talks).run_id
    last = "(SELECT max(seq) FROM journal WHERE CAST(header AS TEXT) LIKE '%\"step\"%')"
    change(home, f"""UPDATE journal SET payload = CAST('{{"result":"forged"}}' AS BLOB) WHERE seq = {last}""", rows=1)
    with Outlast(home) as outlast:
        row = run_row(outlast._caller.home, run_id)
        Mirror(outlast._caller.home, run_id, row.key, row.flow, 0, counted=True).catch_up(10)
        written = [json.loads(path.read_text()) for path in (mirror_of(outlast, run_id) / "receipts").iterdir()]
    assert [each["broken"] for each in written if each["broken"]] == ["its payload was changed"]


DYING_RUN = """
import os, sys
from outlast import Outlast, Run, flow, step

@step
def say(word: str) -> str:
    return word

@step
def die() -> str:
    if os.environ.get("DIE"):
        os.kill(os.getpid(), 9)
    return "calm"

@flow(name="dying")
def dying(run: Run) -> list[str]:
    return [say("a"), say("b"), die(), say("c")]

with Outlast(sys.argv[1]) as outlast:
    print(outlast.run(dying, task="one").run_id)
"""


def test_after_a_crash_the_mirror_is_right_once_the_run_went_on(tmp_path: Path) -> None:
    home, script = tmp_path / ".outlast", tmp_path / "dying.py"
    script.write_text(DYING_RUN)
    for die in ("1", ""):
        words = [sys.executable, str(script), str(home)]
        done = subprocess.run(words, env=os.environ | {"DIE": die}, timeout=60, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
    folder = home / "runs" / done.stdout.decode().strip() / "dying"
    names = ["die-main.json", "say-main.json", "say~2-main.json", "say~3-main.json"]
    assert sorted(path.name for path in (folder / "handoffs").iterdir()) == names
    assert json.loads((folder / "receipts" / "die-main.json").read_text())["status"] == "succeeded"


def test_a_python_flow_has_its_mirror_when_it_is_asked_for(tmp_path: Path) -> None:
    with Outlast(tmp_path / ".outlast", settings=Settings(mirror_seconds=0)) as outlast:
        _is_mirrored_when_asked(outlast)


def _is_mirrored_when_asked(outlast: Outlast) -> None:
    outcome = outlast.run(talk)
    assert not mirror_of(outlast, outcome.run_id).exists()
    folder = outlast.mirror(outcome.run_id[:6])
    assert folder == outlast.home / "runs" / outcome.run_id / "talk"
    assert sorted(json.loads(path.read_text())["result"] for path in (folder / "handoffs").iterdir()) == ["a", "b"]
    assert {path.parent for path in folder.rglob("*.json")} == {folder / "receipts", folder / "handoffs"}


def test_another_tenant_has_its_mirror_in_its_own_folder(tmp_path: Path) -> None:
    with Outlast(tmp_path / ".outlast", tenant="acme") as outlast:
        outcome = outlast.run(talk)
        assert outlast.mirror(outcome.run_id).is_relative_to(tmp_path / ".outlast" / "acme")


# -- killed ----------------------------------------------------------------------------------------

DYING = """
import resource, signal, sys
import outlast.commands.mirror  # before the limit: a module that is compiled under it would be cut off too
from outlast import Outlast

outlast = Outlast(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000))
outlast.mirror(sys.argv[2])  # the kernel kills it at the 9,000th byte of a file
"""


def test_a_kill_in_the_middle_leaves_no_half_file(tmp_path: Path) -> None:
    with Outlast(tmp_path / ".outlast", settings=Settings(mirror_seconds=0)) as outlast:
        _leaves_no_half_file(outlast)


def _leaves_no_half_file(outlast: Outlast) -> None:
    outcome = outlast.run(much)
    folder = mirror_of(outlast, outcome.run_id)
    for whole in ([], ["long-main.json", "long~2-main.json"]):
        child = subprocess.run(
            [sys.executable, "-B", "-c", DYING, str(outlast.home), outcome.run_id], timeout=60, check=False
        )
        assert child.returncode == -signal.SIGXFSZ
        assert [path.name for path in sorted((folder / "receipts").glob("*.json"))] == whole
        for path in folder.rglob("*.json"):
            assert json.loads(path.read_text())["run_id"] == outcome.run_id
        outlast.mirror(outcome.run_id)


@step
def long(n: int) -> str:
    return "x" * 30_000


@flow
def much(run: Run) -> int:
    return len([long(n) for n in range(2)])


def test_the_mirror_of_an_unknown_run_is_refused(outlast: Outlast) -> None:
    from outlast.errors import RunNotFound

    with pytest.raises(RunNotFound):
        write_mirror(outlast._executor.home, "nope")
