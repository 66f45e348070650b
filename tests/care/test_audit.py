"""The six questions: what an auditor would accept passes, and each question has a flow and a run that fail just it."""

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from outlast import KEY, NOT_DONE, Happened, Outlast, Run, effect, flow, flow_file, inject, step
from outlast.care.audit.flow import QUESTIONS, Audit
from outlast.care.audit.python import is_live
from outlast.care.audit.run import look_at, protected
from outlast.care.audit.signs import files_written, is_declared, secrets_used, signs_in
from outlast.errors import AmbiguousPrefix, FlowNotFound, RunNotFound
from outlast.ledger.journal import Header, Row, entry
from outlast.runs.call import fold

from .. import ready
from ..crash.command_folder import Folder
from ..kit import place as place_module
from ..kit.flow_files import EXAMPLE
from ..kit.place import KNOBS, Place, ran, reach
from ..runs.test_integrity import tamper


def codes(found: Audit, number: int) -> list[tuple[str, str]]:
    return [(each.code, each.subject) for each in found.questions[number - 1].findings if each.fails]


def says(found: Audit, number: int) -> str:
    question = found.questions[number - 1]
    return "\n".join([*question.evidence, *(f"{each.found}; {each.advice}" for each in question.findings)])


def test_the_questions_are_those_of_the_source() -> None:
    assert [question for question, _ in QUESTIONS] == [
        "Which steps can rerun?",
        "Which steps cannot rerun?",
        "What live dependencies are needed after restore?",
        "Where does execution continue?",
        "Can artifacts be trusted?",
        "How is failure debugged?",
    ]


# -- commands ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        'git commit -m "x"',
        "git -C sub push origin main",
        "echo done >> log.txt",
        "make | tee -a log.txt",
        "curl -X POST https://example.org",
        "curl -XPUT https://example.org",
        "curl --request=DELETE https://example.org",
        "curl --data @body https://example.org",
        "wget --post-data=a=1 https://example.org",
        "npm publish",
        "twine upload dist/*",
        "docker push image",
        "kubectl apply -f x.yaml",
        "kubectl delete pod x",
        "terraform apply -auto-approve",
        "aws sqs send-message --queue-url x",
        "aws s3 cp a s3://b",
        "mail -s hello a@example.org",
        "/usr/sbin/sendmail a@example.org",
        'psql -c "insert into t values (1)"',
        "rm -rf data",
        "make && sudo -n git push",
        "A=1 timeout 5 git push",
        'sh -c "cd x; git push"',
        'echo "$(git push)"',
        "if test -f x; then git push; fi",
        "gh release create v1",
        "curl -sX POST https://example.org",
        "curl -sSfXDELETE https://example.org",
        "curl -sd @f https://example.org",
        "make &>> log.txt",
        "sudo -u bob git push",
        "sudo -nu bob git push",
        "/usr/bin/sudo --user bob -- git push",
        "nice -n 5 git push",
        "timeout -k 5 10 git push",
        "timeout --signal KILL 10 git push",
        "doas -u bob git push",
        "stdbuf -o L git push",
        "nohup time -p git push",
        "env -u HOME A=1 git push",
        "ls | xargs -n 1 -I{} git push {}",
        "bash -c 'git push' zero",
        "bash -ec 'git push' zero one",
        "ssh -p 22 bob@host git push",
        "kubectl -n x apply -f y.yaml",
        "kubectl --context prod delete pod y",
        "python -m twine upload dist/*",
        "python3.11 -u -m twine upload dist/*",
        "gh api -X POST repos/a/b/issues",
        "gh api repos/a/b/issues -f title=x",
        "gh api graphql -f query='mutation { x }'",
        "gh -R a/b pr create",
        "aws --profile x s3 cp a s3://b",
    ],
)
def test_a_command_that_must_not_run_twice_is_seen(command: str) -> None:
    assert signs_in(command)


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git tag --list",
        'echo "git push"',
        "# git push",
        "cat > x <<EOF\ngit push\nEOF",
        "curl https://example.org -o page.html",
        "curl -G -d q=1 https://example.org",
        'curl -X POST -H "Idempotency-Key: $TICKET" https://example.org',
        "kubectl get pods",
        "aws s3 ls",
        'psql -c "select 1"',
        "rm -rf /tmp/scratch",
        "rm -rf build",
        "echo x >> /dev/null 2>&1",
        "echo x >> $OUTLAST_ENVELOPE",
        "echo 'an open quote",
        "make &> log.txt",
        "curl -so post https://example.org",
        "curl -sGd q=1 https://example.org",
        "curl -H X-Data:d https://example.org",
        "sudo -u push git status",
        "bash push.sh git push",
        "bash -c 'git status' push",
        "kubectl -n apply get pods",
        "python -m pytest",
        "gh api repos/a/b/issues",
        "gh api graphql -f query='query { x }'",
        "gh pr list",
        "timeout",
        "sudo -u",
        "echo $((1 + ",
        "",
        "😀" * 1000,
    ],
)
def test_a_command_that_may_run_twice_is_left_alone(command: str) -> None:
    assert signs_in(command, ["build/**"]) == ()


def test_files_and_secrets_of_a_command_are_seen() -> None:
    assert files_written("make > out.txt 2> err.txt | tee log.txt > /dev/null; cat < in.txt") == (
        "out.txt",
        "err.txt",
        "log.txt",
    )
    assert secrets_used('curl -H "Authorization: ${API_TOKEN}" "$OUTLAST_EFFECT_KEY" $HOME') == ("API_TOKEN",)
    assert secrets_used('curl -H "Authorization: Bearer $OUTLAST_API_KEY" "$OUTLAST_HOME"') == ("OUTLAST_API_KEY",)
    assert is_declared("./out/a.txt", ["out/**"])
    assert not is_declared("out.txt", ["other.txt"])


# -- flow files --------------------------------------------------------------------------------------


def audit_file(tmp_path: Path, text: str) -> Audit:
    (tmp_path / "flow.yaml").write_text(text)
    with Outlast(tmp_path / ".outlast") as outlast:
        return outlast.audit(flow_file(tmp_path / "flow.yaml"))


def test_items_and_other_flows_are_looked_at_and_are_no_waits(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(
        "flow: other\nsecrets: [OTHER_TOKEN]\n"
        "steps:\n  - {id: push, run: git push}\n  - {id: ok, pause_for: approval}\n"
    )
    text = (
        "flow: f\nsteps:\n  - {id: sub, flow: other.yaml}\n"
        "  - {id: each, foreach: {items: [a], steps: [{id: send, run: git push}]}}\n"
    )
    found = audit_file(tmp_path, text)
    first, second, third = found.questions[:3]
    assert {finding.subject for finding in first.findings} == {"send", "other/push"}
    assert second.evidence == ("approval other/ok: answered once, on record",)
    assert "secret OTHER_TOKEN: demanded before the first step" in third.evidence


def with_step(*lines: str, head: str = "") -> str:
    return f"flow: f\n{head}steps:\n  - id: a\n" + "".join(f"    {line}\n" for line in lines)


def test_the_flow_file_of_the_handbook_passes_all_six(tmp_path: Path) -> None:
    found = audit_file(tmp_path, EXAMPLE)
    assert (found.passed, found.kind, found.subject) == (True, "flow", "build")
    assert "plan, author, critic, lint, types" in says(found, 1)
    assert "effect release: intent on disk first; a key of its own; in doubt its probe is asked" in says(found, 2)
    assert "approval approve" in says(found, 2)
    assert "secret API_TOKEN" in says(found, 3)
    assert "wait approve" in says(found, 4)
    assert "plan declares plan.md" in says(found, 5)
    assert "transcript" in says(found, 6)


@pytest.mark.parametrize(
    ("number", "code", "text"),
    [
        (1, "looks_unrepeatable", with_step("run: git commit -am x")),
        (1, "looks_unrepeatable", with_step("run: make", "when: curl -d a=1 example.org")),
        (1, "looks_unrepeatable", with_step("run: make", "accept: ['git push']")),
        (2, "not_done_too_broad", with_step("run: ./send", "effect: true", "not_done_exit: [1]")),
        (2, "probe_acts", with_step("run: ./send", "effect: true", "confirm: curl -X POST example.org")),
        (3, "secret_not_declared", with_step('run: ./send "$API_TOKEN"')),
        (5, "writes_not_declared", with_step("run: make > report.txt")),
    ],
)
def test_a_flow_file_that_fails_one_question_fails_just_that(tmp_path: Path, number: int, code: str, text: str) -> None:
    found = audit_file(tmp_path, text)
    assert found.failed == (number,)
    assert [each for each, _ in codes(found, number)] == [code]
    assert "line 3" in says(found, number) or number in (2, 3)


@pytest.mark.parametrize(
    "text",
    [
        with_step("run: git push", "effect: true"),
        with_step("run: echo x >> log", "writes: [log]", "on_partial: restore"),
        with_step('run: ./send "$API_TOKEN"', head="secrets: [API_TOKEN]\n"),
        with_step("run: make > out/report.txt", "writes: ['out/**']"),
        with_step("run: make || true"),
    ],
)
def test_what_is_marked_or_declared_passes(tmp_path: Path, text: str) -> None:
    assert audit_file(tmp_path, text).passed


def test_an_effect_without_a_probe_passes_with_a_note(tmp_path: Path) -> None:
    found = audit_file(tmp_path, with_step("run: ./send", "effect: true"))
    (note,) = found.questions[1].findings
    assert (note.code, note.fails) == ("no_probe", False)


def test_a_failure_that_is_swallowed_is_noted(tmp_path: Path) -> None:
    found = audit_file(tmp_path, with_step("run: make || true"))
    (note,) = found.questions[5].findings
    assert (note.code, note.fails, note.found) == ("failure_hidden", False, "|| true (line 3)")


# -- Python flows ------------------------------------------------------------------------------------


class WebClient:
    def get(self, url: str) -> str:
        return url

    def post(self, url: str, **options: Any) -> str:
        return url

    def close(self) -> None: ...


client = WebClient()
SETTINGS = {"url": "https://example.org"}


def was_sent(text: str, key: str) -> Any:
    return Happened(key) if KNOBS.get("sent") else NOT_DONE


def blind() -> Any:
    return NOT_DONE


@step
def find(topic: str, *, search: Any = inject("search")) -> str:
    return f"{search.get(SETTINGS['url'])} {topic}"


@step(writes=["draft.md"])
def draft(text: str) -> str:
    Path("draft.md").write_text(text)
    return text


@effect(confirm=was_sent, not_done=(ConnectionRefusedError,))
def publish(text: str, *, key: str = KEY) -> str:
    client_of = inject("client")
    return f"{client_of} {text}"


@flow
def good(run: Run, topic: str) -> str:
    text = draft(find(topic))
    run.state["length"] = len(text)
    return publish(text)


def helper(text: str) -> None:
    subprocess.run(["git", "commit", "-m", text], check=True)


@step
def commits(text: str) -> str:
    helper(text)
    return text


@step
def posts(text: str, *, web: Any = inject("web")) -> str:
    return str(web.post(SETTINGS["url"], json=text))


@step
def posts_keyed(text: str, *, web: Any = inject("web")) -> str:
    return str(web.post(SETTINGS["url"], headers={"Idempotency-Key": text}))


@step
def appends(text: str) -> None:
    with open("log.txt", "a") as file:
        file.write(text)


@effect(not_done=(Exception,))
def sends_anyhow(text: str) -> None: ...


@effect(confirm=blind)
def sends_blind(text: str) -> None: ...


@step
def wraps_effect(text: str) -> str:
    return publish(text)


@step
def uses_client(text: str) -> str:
    return client.get(text)


@step
def writes_file(text: str) -> None:
    Path("out.txt").write_text(text)


@step(name="same")
def first_same() -> int:
    return 1


@step(name="same")
def second_same() -> int:
    return 2


@flow
def with_helper(run: Run) -> None:
    commits("a")


@flow
def with_post(run: Run) -> None:
    posts("a")


@flow
def with_acting_body(run: Run) -> None:
    helper("a")


@flow
def with_broad(run: Run) -> None:
    sends_anyhow("a")


@flow
def with_blind(run: Run) -> None:
    sends_blind("a")


@flow
def with_wrapped(run: Run) -> None:
    wraps_effect("a")


@flow
def with_client(run: Run) -> None:
    run.step(uses_client, "a")


@flow
def with_clock(run: Run) -> float:
    return time.time()


@flow
def with_lambda(run: Run) -> int:
    return run.step(lambda: 1)


@flow
def with_same(run: Run) -> int:
    return first_same() + second_same()


@flow
def with_file(run: Run) -> list[Any]:
    return run.map(writes_file, ["a"])


@flow
def with_artifact(run: Run) -> str:
    return run.workspace.save("draft.md", "text", summary=KNOBS.get("summary", "A draft")).ref


@flow
def with_dumb_artifact(run: Run) -> None:
    run.workspace.save("draft.md", "text")


@flow
def with_keyed(run: Run) -> str:
    return posts_keyed("a")


@flow
def with_child(run: Run) -> None:
    run.spawn(with_post).result()


@flow
def with_append(run: Run) -> None:
    appends("a")


def test_a_python_flow_that_an_auditor_would_accept_passes_all_six(place: Place) -> None:
    found = place.outlast.audit(good)
    assert found.passed
    assert "can rerun: draft, find" in says(found, 1)
    assert "effect publish: intent on disk first; a key of its own; in doubt its probe is asked" in says(found, 2)
    assert "resource search: to be provided: outlast.resource('search', …)" in says(found, 3)
    assert "draft declares draft.md" in says(found, 5)
    place.outlast.resource("search", object())
    assert "resource search: provided by this process" in says(place.outlast.audit(good), 3)


@pytest.mark.parametrize(
    ("number", "code", "subject", "tried"),
    [
        (1, "looks_unrepeatable", "commits", with_helper),
        (1, "looks_unrepeatable", "posts", with_post),
        (1, "looks_unrepeatable", "posts", with_child),
        (1, "body_acts", "with_acting_body", with_acting_body),
        (2, "not_done_too_broad", "sends_anyhow", with_broad),
        (2, "probe_blind", "sends_blind", with_blind),
        (3, "live_object", "uses_client", with_client),
        (4, "body_changes", "with_clock", with_clock),
        (4, "no_name", "with_lambda", with_lambda),
        (4, "name_taken", "same", with_same),
        (5, "writes_not_declared", "writes_file", with_file),
        (5, "no_summary", "with_dumb_artifact", with_dumb_artifact),
    ],
)
def test_a_python_flow_that_fails_one_question_fails_just_that(
    place: Place, number: int, code: str, subject: str, tried: Any
) -> None:
    found = place.outlast.audit(tried)
    assert (found.failed, codes(found, number)) == ((number,), [(code, subject)])


@flow
def with_steps_elsewhere(run: Run) -> None:
    run.step(place_module.ran, "a")
    run.effect(shutil.copy, "a", "b")


@flow
def with_unknown(run: Run, steps: list[Any]) -> None:
    for each in steps:
        run.step(each)


def test_a_function_of_another_module_is_a_step_and_no_part_of_the_body(place: Place) -> None:
    found = place.outlast.audit(with_steps_elsewhere)
    assert found.passed
    assert "can rerun: ran" in says(found, 1)
    assert "effect copy" in says(found, 2)


def test_what_cannot_be_followed_is_noted(place: Place) -> None:
    (note,) = place.outlast.audit(with_unknown).questions[0].findings
    assert (note.code, note.fails) == ("not_seen", False)
    assert "run.step(each, …)" in note.found


def test_an_effect_inside_a_step_fails_the_second_question(place: Place) -> None:
    assert ("effect_in_step", "publish") in codes(place.outlast.audit(with_wrapped), 2)


def test_a_call_with_an_idempotency_key_may_be_made_twice(place: Place) -> None:
    assert place.outlast.audit(with_keyed).passed


def test_a_step_that_appends_fails_the_first_question_and_the_fifth(place: Place) -> None:
    assert place.outlast.audit(with_append).failed == (1, 5)


def test_a_flow_is_audited_by_its_name(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    (place.folder / "flow.yaml").write_text(with_step("run: git push"))
    assert place.outlast.audit("tests.care.test_audit:good").passed
    assert place.outlast.audit("flow.yaml").failed == (1,)
    with pytest.raises(FlowNotFound):
        place.outlast.audit("tests.care.test_audit:find")
    with pytest.raises(FlowNotFound):
        place.outlast.audit("no.yaml")


@pytest.mark.parametrize(
    ("thing", "live"), [(client, True), (SETTINGS, False), (Path(), False), (WebClient, False), (None, False)]
)
def test_a_live_object_is_told_from_a_value(thing: Any, live: bool) -> None:
    assert is_live(thing) is live


def test_an_open_file_is_live(tmp_path: Path) -> None:
    with (tmp_path / "x").open("w") as file:
        assert is_live(file)


# -- runs --------------------------------------------------------------------------------------------


@step
def work(text: str, *, tool: Any = inject("tool")) -> str:
    ran(f"work {text} {tool}")
    reach("working")
    return text * 50_000


@step(retries=1, backoff=0)
def flaky(text: str) -> str:
    ran("flaky")
    if KNOBS.setdefault("tries", 0) == 0:
        KNOBS["tries"] = 1
        raise ValueError("once")
    return text


@step(retries=1, backoff=0)
def flaky_post(text: str) -> str:
    client.post(text)
    return flaky.plain(text)


@effect
def send(text: str) -> str:
    ran("send")
    if KNOBS.get("lost"):
        raise ConnectionError("lost")
    return text[:3]


@flow
def job(run: Run) -> str:
    run.phase = "working"
    text = work("a")
    flaky("b")
    reach("before sending")
    return send(text)


@flow
def job_posts(run: Run) -> str:
    return flaky_post("b")


@pytest.fixture
def tooled(place: Place) -> Place:
    place.outlast.resource("tool", "hammer")
    return place


def test_a_finished_run_passes_all_six_with_its_evidence(tooled: Place) -> None:
    run_id = tooled.outlast.run(job, trace_id="trace-7").run_id
    found = tooled.outlast.audit(run_id[:8])
    assert (found.passed, found.kind, found.subject) == (True, "run", run_id)
    assert "flaky ran 2 times: succeeded" in says(found, 1)
    assert "effect send: succeeded, delivered once, attempt 1, key " in says(found, 2)
    assert "needed while it ran: tool" in says(found, 3)
    assert "nowhere: it is succeeded" in says(found, 4)
    assert "is the result of work" in says(found, 5)
    assert "trace id trace-7 on every one" in says(found, 6)


def test_a_step_that_ran_again_and_looks_unrepeatable_fails_the_first(place: Place) -> None:
    found = place.outlast.audit(place.run(job_posts).run_id)
    assert (found.failed, codes(found, 1)) == ((1,), [("ran_again", "flaky_post")])
    assert "client.post" in says(found, 1)


def test_an_effect_in_doubt_fails_the_second_until_somebody_decides(tooled: Place) -> None:
    KNOBS["lost"] = True
    outcome = tooled.run(job)
    found = tooled.outlast.audit(outcome.run_id)
    assert (found.failed, codes(found, 2)) == ((2,), [("in_doubt", "send")])
    tooled.outlast.skip(outcome.run_id, "send", result="sent", why="I looked")
    assert tooled.run(job).status == "succeeded"
    settled = tooled.outlast.audit(outcome.run_id)
    assert settled.passed
    assert "effect send: skipped" in says(settled, 2)


@pytest.mark.parametrize(("mark", "fails"), [("", True), ("not_done", False)])
def test_an_effect_that_ran_again_without_leave_fails_the_second(place: Place, mark: str, fails: bool) -> None:
    told = [(1, "failed", False, mark), (2, "succeeded", True, "")]
    headers = [Header("effect", "send", attempt=n, status=s, delivered=d, mark=m) for n, s, d, m in told]
    rows = [Row(seq, entry(header).header, b"", None) for seq, header in enumerate(headers, start=1)]
    looked = replace(
        look_at(place.outlast._executor, place.run(job_posts).run_id), rows=rows, ledger=fold(rows), names={}
    )
    found = [each.code for each in protected(looked).findings if each.fails]
    assert found == (["ran_again"] if fails else [])


def test_a_missing_resource_fails_the_third_until_it_is_provided(tooled: Place) -> None:
    tooled.close()
    tooled.killed(lambda outlast: (outlast.resource("tool", "hammer"), outlast.run(job)), at="before sending")
    found = tooled.outlast.audit(tooled.run_id)
    assert (found.failed, codes(found, 3)) == ((3,), [("resource_missing", "tool")])
    tooled.outlast.resource("tool", "hammer")
    again = tooled.outlast.audit(tooled.run_id)
    assert again.passed
    assert "phase" in says(again, 4) or "2 outcomes are given again" in says(again, 4)
    assert "next is the first call without an outcome" in says(again, 4)


def test_a_flow_that_is_gone_fails_the_fourth(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "work")
    folder.flow("- {id: one, run: 'true'}\n- {id: two, run: 'false'}")
    run_id = folder.run().run_id
    passed = folder.outlast.audit(run_id)
    (folder.path / "flow.yaml").rename(folder.path / "moved.yaml")
    found = folder.outlast.audit(run_id)
    folder.end()
    assert passed.passed
    assert "two is tried again" in says(passed, 4)
    assert (found.failed, [code for code, _ in codes(found, 4)]) == ((4,), ["flow_not_found"])


def test_a_missing_blob_fails_the_fifth_and_its_source_is_named(tooled: Place) -> None:
    run_id = tooled.run(job).run_id
    (receipt,) = [receipt for receipt in tooled.outlast.receipts(run_id) if receipt.step == "work"]
    tooled.outlast._executor.home.blobs.path(receipt.blob).unlink()
    found = tooled.outlast.audit(run_id)
    assert (found.failed, [code for code, _ in codes(found, 5)]) == ((5,), ["artifact_spoilt"])
    assert "(of work)" in says(found, 5)


def test_an_artifact_says_what_it_is_and_where_it_comes_from(place: Place) -> None:
    assert place.outlast.audit(with_artifact).passed
    found = place.outlast.audit(place.run(with_artifact).run_id)
    assert found.passed
    assert "artifact:default/draft.md@1 by the body: A draft" in says(found, 5)


def test_an_artifact_without_a_summary_or_with_other_content_fails_the_fifth(place: Place) -> None:
    KNOBS["summary"] = ""
    run_id = place.run(with_artifact).run_id
    found = place.outlast.audit(run_id)
    assert (found.failed, [code for code, _ in codes(found, 5)]) == ((5,), ["no_summary"])
    place.outlast._executor.home.blobs.path(_blob(place)).unlink()
    assert [code for code, _ in codes(place.outlast.audit(run_id), 5)] == ["no_summary", "artifact_spoilt"]


def _blob(place: Place) -> str:
    (row,) = place.outlast._executor.home.store.read(lambda look: look.artifacts_of_scope("default", 0, 10))
    return row.blob


def test_a_broken_chain_fails_the_sixth(tooled: Place) -> None:
    run_id = tooled.run(job).run_id
    tamper(tooled, "UPDATE journal SET hash = zeroblob(32) WHERE seq = 3")
    found = tooled.outlast.audit(run_id)
    assert (found.failed, [code for code, _ in codes(found, 6)]) == ((6,), ["integrity_broken"])


def test_of_a_run_with_a_torn_record_nothing_passes(tooled: Place) -> None:
    run_id = tooled.run(job).run_id
    tamper(tooled, "UPDATE journal SET header = x'5b' WHERE seq = 3")
    found = tooled.outlast.audit(run_id)
    assert found.failed == (1, 2, 3, 4, 5, 6)
    assert [code for code, _ in codes(found, 1)] == ["unreadable"]
    assert [code for code, _ in codes(found, 6)] == ["integrity_broken"]


def test_a_secret_that_is_not_set_fails_the_third(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "secret-value")
    folder = Folder(tmp_path / "work")
    (folder.path / "flow.yaml").write_text("flow: f\nsecrets: [API_TOKEN]\nsteps:\n  - {id: a, run: 'false'}\n")
    run_id = folder.run().run_id
    passed = folder.outlast.audit(run_id)
    monkeypatch.delenv("API_TOKEN")
    found = folder.outlast.audit(run_id)
    folder.end()
    assert passed.passed
    assert (found.failed, codes(found, 3)) == ((3,), [("secret_missing", "API_TOKEN")])
    assert "secret-value" not in str(passed)


def test_a_run_that_is_not_there_is_not_found(place: Place) -> None:
    place.run(job_posts)
    with pytest.raises(RunNotFound):
        place.outlast.audit("nope")
    with pytest.raises((RunNotFound, AmbiguousPrefix)):
        place.outlast.audit("")


# -- of a run, nothing is imported -------------------------------------------------------------------

LOUD = """
from pathlib import Path
from outlast import Run, flow, inject, resource, step

Path({log!r}).open("a").write("imported\\n")

@resource("loud.db")
def db() -> str:
    return "db"

@step
def look(*, db: str = inject("loud.db")) -> str:
    raise ValueError(db)

@flow
def loud(run: Run) -> str:
    return look()
"""


def said(folder: Path, *words: str) -> "subprocess.CompletedProcess[bytes]":
    return ready.run(("-m", "outlast", *words), cwd=folder, env=ready.environment())


@pytest.mark.parametrize("source", ["loud_flows.py:loud", "loud_package.inner:loud"])
def test_a_run_is_audited_without_importing_its_flow(tmp_path: Path, source: str) -> None:
    log = tmp_path / "log"
    place = source.partition(":")[0].removesuffix(".py").replace(".", "/")
    file = tmp_path / f"{place}.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(LOUD.format(log=str(log)))
    run_id = json.loads(said(tmp_path, "run", source, "--json").stdout)["run_id"]
    imported = log.read_text()

    def audited() -> tuple[int, str]:
        done = said(tmp_path, "audit", run_id)
        return done.returncode, done.stdout.decode()

    code, told = audited()
    assert code == 0, told
    assert "resource loud.db: made by the flow's code" in told
    file.write_text(file.read_text().replace("def loud(", "def quiet("))
    code, told = audited()
    assert (code, "has no 'loud'" in told) == (4, True), told
    file.unlink()
    code, told = audited()
    assert (code, "there is no" in told) == (4, True), told
    assert log.read_text() == imported
