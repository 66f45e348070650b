"""Results as a model reads them: the verdict first, then what to do, in the words of the tools.

What came from others (summaries, payloads, results) stands inside one line of ours as JSON, so that it can forge
neither a verdict nor an instruction of ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from outlast.errors import HandoffInvalid
from outlast.handoffs.reading import PROMPT_TOKENS, prompt
from outlast.values.codec import jsonable

if TYPE_CHECKING:
    from outlast.handoffs.handoff import Evidence, Handoff, HandoffClaim
    from outlast.handoffs.recovered import Recovered
    from outlast.ledger.verdict import Verdict
    from outlast.runs.run import Outcome, RunRecord
    from outlast.runs.waits.interrupt import Interrupt

SHORT = 300  # characters of one thing in a line; the data beside the text has more


def inline(value: Any, most: int = SHORT) -> str:
    """A value as JSON on one line, what cannot be seen written out; what is cut says so."""
    text = json.dumps(jsonable(value), ensure_ascii=False)
    text = text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def lines(*parts: str | Iterable[str]) -> str:
    """Lines of text, empty ones left out."""
    every = [each for part in parts for each in ([part] if isinstance(part, str) else part)]
    return "\n".join(each for each in every if each)


def at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


# -- handoffs ------------------------------------------------------------------------------------------


def recovered_text(got: Recovered, whole: str, tokens: int | None = None) -> str:
    """The contract in reading order within so many tokens, then how to go on with the tools."""
    return f"{_prompt(got, tokens)}\n\n{lines('## With these tools', _ways(got), f'- All of it: read {whole}')}"


def _prompt(got: Recovered, tokens: int | None) -> str:
    if tokens is not None:
        return prompt(got, tokens)
    room = PROMPT_TOKENS
    while True:  # nobody asked for a number: verdict, musts and next action get what they need
        try:
            return prompt(got, room)
        except HandoffInvalid:
            room *= 2


def _ways(got: Recovered) -> Iterable[str]:
    anchor = inline(got.anchor)
    if got.run is not None:
        yield f"- Its run {got.run.run_id} is {got.run.status}: run_resume with run_id={inline(got.run.run_id)}"
    if got.standing == "finished":
        return
    if got.claim is not None:
        yield claim_line(got.claim)
        yield f"- Done, and every check passes: handoff_settle with anchor={anchor}, outcome=completed"
    elif got.resume == "lost":
        yield "- You did NOT get the claim: change nothing. Mend what contests, or ask the user and accept it with why"
    else:
        yield f"- Before you change anything: handoff_recover with anchor={anchor}, claim=true"


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
        f"Masked as secrets: {', '.join(handoff.masked)}." if handoff.masked else "",
        f"This revision is a rival of a claim held by somebody else (rival {handoff.rival_id})."
        if handoff.rival
        else "",
        f"Recover it: handoff_recover with anchor={inline(handoff.anchor)}. All of it: read {whole}",
    )


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
    from outlast.handoffs.verdict import label_of

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
