"""Results as a model reads them: the verdict first, then what to do, in the words of the tools.

What came from others (summaries, payloads, results) stands inside one line of ours as JSON, so that it can forge
neither a verdict nor an instruction of ours.

And errors as a model is told them: `code: detail; advice`, and the same four fields as data.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast import errors
from outlast.errors import HandoffInvalid, OutlastError
from outlast.operations.answers import label_of, rivals_of
from outlast.operations.reading import PROMPT_TOKENS, prompt
from outlast.values.codec import jsonable
from outlast.values.text import shorten

if TYPE_CHECKING:
    from outlast import Interrupt, Outcome, RunRecord, Verdict
    from outlast.operations.answers import Evidence, Handoff, Listed, Recovered
    from outlast.operations.handoffs import HandoffClaim

LONG = 2_000  # of an argument that is to be given again: no name is as long
SHORT = 300  # characters of one thing in a line; the data beside the text has more


def inline(value: Any, most: int = SHORT) -> str:
    """A value as JSON on one line, what cannot be seen written out; what is cut says so."""
    text = json.dumps(jsonable(value), ensure_ascii=False)
    text = text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
    return shorten(text, most)


def lines(*parts: str | Iterable[str]) -> str:
    """Lines of text, empty ones left out."""
    every = [each for part in parts for each in ([part] if isinstance(part, str) else part)]
    return "\n".join(each for each in every if each)


def at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


# -- handoffs ------------------------------------------------------------------------------------------


def contested_line(one: Listed) -> str:
    """A handoff that something contests, and the call that tells all of it."""
    against = one.verdict.contesting if one.verdict else ()
    why = "; ".join(f"{reason.code} {inline(reason.subject)[1:-1]}: {inline(reason.found)}" for reason in against)
    all_of_it = called("handoff_recover", anchor=one.anchor, scope=in_scope(one.scope))
    return f"Handoff {inline(one.anchor)} is contested: {why}. All of it: {all_of_it}"


def recovered_text(got: Recovered, whole: str, tokens: int | None = None, reach: Sequence[str] = ()) -> str:
    """The contract in reading order within so many tokens, then how to go on with the tools.

    `reach`: the options by which a command finds the home.
    """
    ways = lines("## With these tools", _ways(got), f"- All of it: read {whole}")
    return f"{_prompt(got, tokens, reach)}\n\n{ways}"


def _prompt(got: Recovered, tokens: int | None, reach: Sequence[str]) -> str:
    if tokens is not None:
        return prompt(got, tokens, reach)
    room = PROMPT_TOKENS
    while True:  # nobody asked for a number: verdict, musts and next action get what they need
        try:
            return prompt(got, room, reach)
        except HandoffInvalid:
            room *= 2


def called(tool: str, **arguments: Any) -> str:
    """A call as a model makes it: the tool and its arguments as JSON, those that are empty left out."""
    given = ", ".join(f"{name}={inline(value, LONG)}" for name, value in arguments.items() if value not in (None, ""))
    return f"{tool} with {given}"


def in_scope(scope: str) -> str:
    """A scope as an argument: the default one is left out."""
    return "" if scope == "default" else scope


def _ways(got: Recovered) -> Iterable[str]:
    of: dict[str, Any] = {"anchor": got.anchor, "scope": in_scope(got.handoff.scope)}
    claim = got.claim.id if got.claim else ""
    running = got.run is not None and got.run.status == "running"
    if got.run is not None:
        way = called("run_show", run_id=got.run.run_id)
        way = way if running else called("run_resume", run_id=got.run.run_id, claim_id=claim)
        yield f"- Its run {got.run.run_id} is {got.run.status}: {way}"
    if got.standing == "finished":
        return
    if got.claim is not None:
        yield claim_line(got.claim)
        if got.handoff.revision:
            settle = called("handoff_settle", **of, outcome="completed", claim_id=claim)
            yield f"- Done, and every check passes: {settle}"
        else:
            settle = called("handoff_settle", **of, outcome="released", claim_id=claim)
            yield f"- It is done when its run is. To give it back before: {settle}"
    elif got.resume == "lost":
        yield "- You did NOT get the claim: change nothing. Mend what contests, or ask the user and accept it with why"
    elif running:
        yield "- Change nothing while its run goes on: it is not claimed before that has stopped"
    else:
        once = "Once nothing contests it, before" if got.verdict.unaccepted(got.accepted) else "Before"
        yield f"- {once} you change anything: {called('handoff_recover', **of, claim=True)}"


def claim_line(claim: HandoffClaim) -> str:
    """The claim, and how to show it."""
    return f"- You hold the claim {claim.id} until {at(claim.expires_at)}; every use renews it. Give it as claim_id."


def stored_text(handoff: Handoff, whole: str) -> str:
    """What was stored, how good it is, and what would make it better."""
    was = "was stored already" if handoff.replayed else "stored"
    lint = handoff.lint
    weak = ", weak: store it again with what is named below" if lint.weak else ""
    return lines(
        f"{inline(handoff.anchor)} revision {handoff.revision} {was}, scope {inline(handoff.scope)}, id {handoff.id}.",
        f"Score {lint.score} of 100{weak}.",
        (f"- {each.code} ({each.path}): {each.says}. Better: {inline(each.better)}" for each in lint.findings),
        f"Bound: {_bound(handoff)}.",
        f"Stays behind: {inline(bound.stays_behind)}." if (bound := handoff.binding) and bound.untracked else "",
        f"Masked as secrets: {', '.join(handoff.masked)}." if handoff.masked else "",
        _rival_lines(handoff),
        f"Recover it: {called('handoff_recover', anchor=handoff.anchor, scope=in_scope(handoff.scope))}. "
        f"All of it: read {whole}",
    )


def _rival_lines(handoff: Handoff) -> Iterable[str]:
    """What the revision is a rival of, and how to say that it counts all the same."""
    other = handoff.unread.id if handoff.unread else handoff.rival_id or handoff.id
    of: dict[str, Any] = {"anchor": handoff.anchor, "scope": in_scope(handoff.scope)}
    for each in rivals_of(handoff):
        yield f"Rival, {each.subject}: {inline(each.found)[1:-1]}. Whoever recovers it is told so."
        yield f"If it counts all the same, store all of it again: {called('handoff_store', **of, supersedes=other)}, …"


def _bound(handoff: Handoff) -> str:
    bound = handoff.binding
    if bound is None:
        return "nothing, nobody looked at files, so that the verdict will be weaker"
    kept = sum(bool(each.kept) for each in bound.files.values())
    return (
        f"{len(bound.files)} files ({kept} with their content){f', commit {bound.commit[:12]}' if bound.commit else ''}"
    )


def evidence_lines(evidence: Iterable[Evidence]) -> Iterable[str]:
    """What came of each check."""
    for each in evidence:
        came = "passed" if each.passed else f"FAILED{f' (exit {each.exit})' if each.exit is not None else ''}"
        note = f": {inline(each.note)}" if each.note else ""
        yield f"- check {inline(label_of(each.check))} {came}{note}"


# -- runs ----------------------------------------------------------------------------------------------


def verdict_lines(verdict: Verdict | None) -> Iterable[str]:
    """The verdict in a word, and each reason with what to do about it."""
    if verdict is None:
        return
    yield f"Verdict: {verdict.word}" + ("" if verdict.reasons else ". Nothing speaks against it.")
    for each in verdict.reasons:
        facts = f"{inline(each.subject)}: expected {inline(each.expected)}, found {inline(each.found)}"
        yield f"- {each.code} ({each.weight}) {facts}. Advice: {inline(each.advice)}"


def run_line(run: RunRecord) -> str:
    phase = f", phase {inline(run.phase)}" if run.phase else ""
    return f"{run.status} {run.id} {inline(run.flow)}, task {inline(run.task)}{phase}, updated {at(run.updated_at)}"


def error_line(error: dict[str, Any] | None) -> str:
    """What a run died of."""
    if not error:
        return ""
    kind = str(error.get("type", "")).rpartition(":")[2]
    return f"Error: {inline(kind)} {inline(error.get('message', ''), 2_000)}"


def outcome_text(outcome: Outcome[Any]) -> str:
    """How a run stands after it was resumed, and what to do next."""
    reused = f"{outcome.replayed_steps} finished steps were reused from receipts." if outcome.replayed_steps else ""
    return lines(
        f"Run {outcome.run_id} {outcome.status}.",
        verdict_lines(outcome.verdict),
        reused,
        f"Result: {inline(outcome.result, 4_000)}" if outcome.status == "succeeded" else "",
        error_line(outcome.error),
        wait_lines(outcome.interrupts),
        _next_of(outcome),
    )


def _next_of(outcome: Outcome[Any]) -> str:
    match outcome.status:
        case "waiting":
            return "Next: show the user what is asked; interrupt_answer passes on their answer, and the run goes on."
        case "failed" | "interrupted" | "crashed":
            return "Next: mend the cause, then call run_resume again: it goes on where it stopped."
        case _:
            return ""


def wait_lines(waits: Iterable[Interrupt]) -> Iterable[str]:
    """Each wait: what is asked, what is shown, and the call that answers it."""
    for wait in waits:
        asked = f" of {inline(wait.assignee)}" if wait.assignee else ""
        yield f"- wait {wait.id}, {inline(wait.type)}{asked}: {inline(wait.says)}"
        if wait.payload:
            yield f"  shown: {inline(wait.payload, 1_000)}"
        if wait.schema is not None:
            yield f"  an answer must fit: {inline(wait.schema, 1_000)}"
        if wait.due_at is not None:
            yield f"  until {at(wait.due_at)}" + (f", then {inline(wait.default)}" if wait.has_default else "")
        yield f"  {_answer_of(wait)}"


def _answer_of(wait: Interrupt) -> str:
    call = f"interrupt_answer with interrupt_id={inline(wait.id)}, shown={inline(wait.digest)}, answer="
    if wait.type in ("timer", "child", "signal"):
        return "nobody can answer it here: it ends by itself, or when its signal is sent"
    if wait.choices:
        needs = ' (skip also needs "result")' if "skip" in wait.choices else ""
        return f'answer it: {call}{{"choice": one of {", ".join(wait.choices)}, "why": WHY}}{needs}'
    if wait.type == "approval" and wait.schema is None:
        return f'answer it: {call}{{"approved": true}} or {{"approved": false, "comment": WHY}}'
    return f"answer it: {call}JSON"


# -- errors ------------------------------------------------------------------------------------------

LONGEST = 4_000  # characters of one field of an error

# Where an error's own advice speaks of commands or of Python, this says the same for who calls tools.
ADVICE: dict[type[OutlastError], str] = {
    errors.AlreadyAnswered: "look at run_show for {run}; if it has not gone on since, call run_resume",
    errors.AmbiguousPrefix: "give more of the id",
    errors.ArtifactNotFound: "list the resources to see what there is, or call workspace_recall with a goal",
    errors.ClaimLost: "stop changing anything: somebody else continues it. Recover it again to see how it stands",
    errors.Contested: "call run_show to see what contests it; mend that, or ask the user and then call again with "
    "accept=[CODE or CODE:SUBJECT] and why",
    errors.Finished: "its work is done. include_finished=true reads it all the same; storing under the anchor opens it "
    "again",
    errors.HandoffAmbiguous: "call again with the anchor of one of them",
    errors.HandoffClaimed: "wait for it, or give its claim_id if it is yours. Only if the user says so: take=true "
    "with why",
    errors.HandoffContested: "mend what is named, or ask the user and then call again with accept=[CODE:SUBJECT] "
    "and why",
    errors.HandoffNotFound: "check anchor and scope; if nothing was handed over yet, begin the work and store one "
    "later",
    errors.HomeNotFound: "nothing was recorded for this project yet: begin the work. handoff_store, task_pause, "
    "workspace_save, workspace_record and checkpoint_record make a home",
    errors.HandoffWeak: "say what is missing, or store it with strict=false",
    errors.InterruptNotFound: "call interrupt_list for those that are open",
    errors.NotSettled: "mend what is named; name musts in prose word for word in acknowledged; or, if the user says "
    "that it counts all the same, give override with the reason. To give it back undone: outcome=released",
    errors.RevisionConflict: "recover it, take what is new into account, and store again with "
    "expected_revision={found}",
    errors.RunFinished: "there is nothing to resume; call run_show for its result",
    errors.RunHeld: "somebody runs or claimed it: look at it with run_show, and do not resume it meanwhile",
    errors.RunNotFound: "call run_list for the runs there are",
    errors.SecretFound: "take it out, or call again with redact=true to have it masked",
    errors.TaskNotFound: "check the id and the scope; task_pause opens a task that is new",
}


class ToolProblem(NamedTuple):
    """What went wrong, and what to do about it."""

    code: str
    detail: str
    advice: str
    path: str | None

    @property
    def text(self) -> str:
        return f"{self.code}: {self.detail}; {self.advice}" if self.advice else f"{self.code}: {self.detail}"


def problem_of(error: OutlastError) -> ToolProblem:
    """An error of ours, in the words of the tools."""
    told = ADVICE.get(type(error))
    advice = told.format_map(error.facts) if told else error.what_next
    path = error.facts.get("path")
    shown = None if path is None else shorten(str(path), LONGEST)
    return ToolProblem(error.code, shorten(error.detail, LONGEST), shorten(advice, LONGEST), shown)


def unforeseen(error: BaseException) -> ToolProblem:
    """What nobody foresaw. The log has all of it; a model is told its kind only."""
    detail = f"the call failed in a way that nobody foresaw ({type(error).__name__})"
    return ToolProblem("internal", detail, "try it again; if it stays, tell the user to look at the server's log", None)
