"""Rows 3 and 4: what many finished steps cost, in time to go on after them and in bytes."""

from dataclasses import replace
from functools import partial

from homes import Homes
from measure import Ask, NotMeasured, Rounds, Sample, Target, go_on
from plan import ASYNC, COMMANDS, DEF, LIMIT, PASSING, Plan
from report import Goal, Row, kilobytes, microseconds, milliseconds, times

FEW = 1_000


def cold_process(plan: Plan, homes: Homes) -> Row:
    targets = [replace(LIMIT, name="limit: open and read"), DEF, ASYNC, COMMANDS, *plan.before, *plan.peers]
    taken = _resumed(plan, homes, targets)
    title = f"Cold process to the next step, {plan.done:,} steps done"
    columns = ["resume", "ms", "× the limit", "ms, none done", "µs per step done", "CPU µs per step done"]
    row = Row(3, title, columns, failed=_plain_names(taken.failed))
    for target in targets:
        if _both(taken, target):
            row.lines.append(_cold_line(plan, taken, target, targets[0]))
    for target, bound in ((DEF, 12), (ASYNC, 14)):
        slope = _slope(plan, taken, target, "wall") if _both(taken, target) else None
        row.goals.append(Goal(f"cold resume, {target.name}, per replayed step", bound, True, slope, microseconds))
    row.goals += _of_commands(taken, targets[0])
    row.notes.append(
        "From starting a process to the first line of the step its predecessor was killed in. Per step done: "
        "less the same with no step done. The limit imports apsw and msgspec, as in row 5, and reads. "
        "LangGraph and Burr read their last state only and replay nothing."
    )
    return row


def _of_commands(taken: Rounds, limit: Target) -> list[Goal]:
    whole = taken.ratio(COMMANDS.name, limit.name) if _both(taken, COMMANDS) else None
    flat = taken.ratio(COMMANDS.name, _empty(COMMANDS)) if whole is not None else None
    return [
        Goal("cold resume, command flow, × the limit", 2.2, True, whole, times),
        Goal("cold resume, command flow, against none done (flat)", 1.25, True, flat, times),
    ]


def storage(plan: Plan, homes: Homes) -> Row:
    targets = [replace(LIMIT, name="limit: bare rows"), DEF, PASSING, *plan.peers]
    columns = ["KB per step", f"after {FEW:,}", f"after {plan.done:,}"]
    row = Row(4, "Storage of a step with a 1 KB result", columns)
    sizes: dict[str, tuple[float, float]] = {}
    for target in targets:
        try:
            sizes[target.name] = _per_step(homes, target, FEW), _per_step(homes, target, plan.done)
        except NotMeasured as error:
            row.failed[target.name] = str(error)
    row.lines = [[name, kilobytes(few), kilobytes(many)] for name, (few, many) in sizes.items()]
    few, many = sizes.get(DEF.name, (None, None))
    growth = many / few if few and many else None
    _, passed_on = sizes.get(PASSING.name, (None, None))
    row.goals = [
        Goal(f"storage of a step after {plan.done:,}", 1.40, True, many, kilobytes),
        Goal("the same, each result given to the next step", 1.55, True, passed_on, kilobytes),
        Goal(f"storage of a step, {plan.done:,} against {FEW:,} (linear)", 1.1, True, growth, times),
    ]
    row.notes.append(
        "Every file of the home, the WAL checkpointed, less a home with no step done; 1 KB is 1,000 bytes."
    )
    return row


def _resumed(plan: Plan, homes: Homes, targets: list[Target]) -> Rounds:
    """Each target with all steps done and, under the name `_empty` gives it, with none."""

    def resume(target: Target, steps: int) -> Sample:
        return go_on(target, homes.copy(target, steps), steps)

    asks: dict[str, Ask] = {}
    for target in targets:
        asks[target.name] = partial(resume, target, plan.done)
        asks[_empty(target)] = partial(resume, target, 0)
    taken = Rounds()
    taken.take(
        asks,
        plan.cold_rounds,
        [name for target in targets if target.slow for name in (target.name, _empty(target))],
    )
    return taken


def _empty(target: Target) -> str:
    return f"{target.name}, none done"


def _plain_names(failed: dict[str, str]) -> dict[str, str]:
    return {name.removesuffix(", none done"): why for name, why in failed.items()}


def _both(taken: Rounds, target: Target) -> bool:
    return {target.name, _empty(target)} <= taken.samples.keys()


def _slope(plan: Plan, taken: Rounds, target: Target, part: str) -> float:
    def between(full: Sample, empty: Sample) -> float:
        return float(getattr(full, part) - getattr(empty, part)) / plan.done * 1e6

    return taken.compare(target.name, _empty(target), between)


def _cold_line(plan: Plan, taken: Rounds, target: Target, limit: Target) -> list[str]:
    return [
        target.name,
        milliseconds(taken.median(target.name, lambda s: s.wall * 1e3)),
        times(taken.ratio(target.name, limit.name)),
        milliseconds(taken.median(_empty(target), lambda s: s.wall * 1e3)),
        f"{_slope(plan, taken, target, 'wall'):.1f}",
        f"{_slope(plan, taken, target, 'cpu'):.1f}",
    ]


def _per_step(homes: Homes, target: Target, steps: int) -> float:
    return (homes.size(target, steps) - homes.size(target, 0)) / steps / 1e3
