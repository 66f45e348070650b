"""What a button of a run would do, before it is done: which steps run again, and what becomes of effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.doors.console.asked import word
from outlast.doors.console.preview import has_left, left_of
from outlast.doors.console.run import ACTIONS, WORDS, actions_of, grouped, items_of, plan_of, planned, the_run
from outlast.errors import OutlastError
from outlast.ids import random_id

if TYPE_CHECKING:
    from outlast import RunRecord
    from outlast.doors.console.asked import PageRequest

Told = list[tuple[str, list[str]]]
OF_A_STEP = ("retry", "skip", "rewind", "fork")
OF_A_FORK = WORDS | {"redo": "Done anew when the fork is resumed", "reuse": "Taken over, not done again"}


def choose(asked: PageRequest) -> dict[str, Any]:
    """What the page shows."""
    found, _ = the_run(asked)
    do = asked.query.get("do", "resume")
    do = do if do in ACTIONS else "resume"
    steps = _steps(asked, found)[-500:] if do in OF_A_STEP else []
    step = asked.query.get("step", "") or (steps[-1] if steps else "")
    allowed = do in dict(actions_of(asked, found))
    return {
        "run": found,
        "do": do,
        "title": ACTIONS[do],
        "step": step,
        "steps": steps,
        "left": left_of(asked, found.id) if do == "resume" and has_left(found) else [],
        "command": _command(do, found.id, step),
        "plan": _plan(asked, found, do, step) if allowed else None,
        "forks": _forked(asked, found, step) if allowed and do == "fork" and step else None,
        "told": _told(asked, found, do) if allowed else [],
        "allowed": allowed,
        "can_approve": asked.may("approve"),
        "operation": random_id(),
    }


def _steps(asked: PageRequest, found: RunRecord) -> list[str]:
    return list(dict.fromkeys(item.name for item in _calls(asked, found)))


def _calls(asked: PageRequest, found: RunRecord) -> list[Any]:
    return [item for item in items_of(asked, found) if item.kind in ("step", "effect")]


def _plan(asked: PageRequest, found: RunRecord, do: str, step: str) -> dict[str, Any] | None:
    """What a resume would do, with what is about to be decided of the step."""
    if do in ("retry", "skip") and step:
        return planned(lambda: asked.plan_with(found.id, do, step))
    if do in ("resume", "rewind"):
        return plan_of(asked, found, **({"from_step": step} if do == "rewind" and step else {}))
    return None


def _forked(asked: PageRequest, found: RunRecord, step: str) -> dict[str, Any]:
    """What the fork takes over and does anew, and the effects that happen again: in any case, or when they are let."""
    try:
        kept, other = (asked.fork_view(found.id, step, reuse_effects=reuse) for reuse in (True, False))
    except OutlastError as error:
        return {"refused": f"{error.detail} {error.what_next}", "groups": [], "told": []}
    again = [effect.says for effect in other.effects if effect not in kept.effects]
    told = [
        ("Effects that happen again if you let them be done again", again),
        ("Effects that happen again in any case", [effect.says for effect in kept.effects]),
    ]
    return {"refused": "", "groups": grouped(kept.steps, OF_A_FORK), "told": _those(told)}


def _told(asked: PageRequest, found: RunRecord, do: str) -> Told:
    """Of what runs nothing again: what is done, under way and asked now, and what becomes of that."""
    if do not in ("abort", "pause"):
        return []
    going = [item.name for item in _calls(asked, found) if item.status == "running"]
    if do == "pause":
        return _those([("Under way, and ends first", going)])
    effects = asked.effects_done(found.id)
    waits = asked("interrupt_list", run_id=found.id).items
    return _those(
        [
            ("Effects that were done and stay done", [effect.says for effect in effects if not effect.in_doubt]),
            ("Effects of which nobody knows whether they happened", [each.says for each in effects if each.in_doubt]),
            ("Under way: what comes of it is not recorded any more", going),
            ("Asked, and not to be answered any more", [wait.says for wait in waits]),
        ]
    )


def _those(groups: Told) -> Told:
    return [(said, found) for said, found in groups if found]


def _command(do: str, run_id: str, step: str) -> str:
    """The same as a command."""
    said = {
        "resume": ["--dry-run"],
        "retry": [word(step)],
        "skip": [word(step), "--result", "JSON", "--why", "WHY"],
        "rewind": [word(step)],
        "fork": ["--from", word(step)],
        "pause": [],
        "abort": ["--why", "WHY"],
    }[do]
    return " ".join(["outlast", do, run_id, *said])
