"""Rows 1 and 2: steps as they happen, one run alone and many at once."""

from measure import Rounds, Sample, ask_in_rounds
from plan import ASYNC, DEF, GROUP, LEAST, LIMIT, ROWS, THREADS, Plan
from report import Goal, Row, count, microseconds, spread, times

MIRRORS = (
    "Ours keeps a mirror for readers too, a file or two for each step: written beside the steps for a hundredth of the "
    "time while they follow each other so quickly, the rest when the home is closed, which is not in these figures."
)


def one_step(plan: Plan) -> Row:
    taken = Rounds(base=LIMIT.name)
    ask_in_rounds(
        taken,
        [LIMIT, ROWS, LEAST, DEF, ASYNC, *plan.before, *plan.peers],
        plan.scratch,
        plan.rounds,
        warm={"verb": "sequential", "steps": 1_000},
        request={"verb": "sequential", "steps": plan.steps},
    )
    empty = _empty_runs(plan)
    columns = ["one run", "µs per step (middle half)", "× the limit", "CPU µs", "own CPU µs", "begin and end µs"]
    row = Row(1, "One durable step, sequential, synced", columns, failed=taken.failed, unit="× a synced commit")

    def own(sample: Sample, bare: Sample) -> float:
        return (sample.cpu - bare.cpu) / plan.steps * 1e6

    def wall(sample: Sample) -> float:
        return sample.wall / plan.steps * 1e6

    for name in taken.samples:
        middle = taken.median(name, wall)
        row.bars.append((name, taken.ratio(name, LIMIT.name)))
        row.lines.append(
            [
                name,
                spread(middle, *taken.spread(name, wall)),
                times(taken.ratio(name, LIMIT.name)),
                count(taken.median(name, lambda s: s.cpu / plan.steps * 1e6)),
                count(taken.compare(name, LIMIT.name, own)),
                count(empty.median(name, lambda s: s.wall * 1e6)) if name in empty.samples else "",
            ]
        )
    for target, bound in ((DEF, 1.42), (ASYNC, 1.48)):
        slower = taken.ratio(target.name, LIMIT.name) if target.name in taken.samples else None
        cpu = taken.compare(target.name, LIMIT.name, own) if target.name in taken.samples else None
        row.goals += [
            Goal(f"one durable step, {target.name}, × the limit", bound, True, slower, times),
            Goal(f"one durable step, {target.name}, own CPU", 85, True, cpu, microseconds),
        ]
    row.notes.append(
        "Own CPU is the CPU time of the whole process less that of the bare commit. Each figure spreads the begin and "
        f"the end of a run over its {plan.steps} steps; what these take by themselves is the last column. "
        "With the least code: encoding, digests, chain and note of such a step in one function, which looks nothing "
        "up, lets nothing fail, wait or be replayed; begin and end are not in it. "
        "The limit, asked twice, is compared with itself: what its ratio differs from 1 is noise."
    )
    row.notes.append(MIRRORS)
    return row


def _empty_runs(plan: Plan) -> Rounds:
    """Runs without a step: what it takes to begin one and to end it."""
    taken, homes = Rounds(), plan.scratch / "empty"
    homes.mkdir()
    nothing = {"verb": "sequential", "steps": 0}
    ask_in_rounds(taken, [DEF, ASYNC, *plan.before], homes, plan.rounds, warm=nothing, request=nothing)
    return taken


def many_runs(plan: Plan) -> Row:
    ours = [ASYNC, THREADS]
    taken = Rounds()
    ask_in_rounds(
        taken,
        [LIMIT, GROUP, LEAST, *ours, *plan.before, *plan.peers],
        plan.scratch,
        plan.together_rounds,
        warm={"verb": "together", "runs": plan.runs, "steps": 50},
        request={"verb": "together", "runs": plan.runs, "steps": plan.run_steps},
    )
    total = plan.runs * plan.run_steps
    title = f"{plan.runs} runs × {plan.run_steps} steps at once, synced"
    columns = ["at once", "steps/s (middle half)", "× one commit per step"]
    row = Row(2, title, columns, failed=taken.failed, unit="× one commit per step")
    for name in taken.samples:
        speed = taken.median(name, lambda s: total / s.wall)
        row.bars.append((name, taken.ratio(LIMIT.name, name)))
        told = spread(speed, *taken.spread(name, lambda s: total / s.wall))
        row.lines.append([name, told, times(taken.ratio(LIMIT.name, name))])
    row.notes.append(MIRRORS)
    peers = [peer.name for peer in plan.peers if peer.name in taken.samples]
    best = min(peers, key=lambda name: taken.median(name, lambda s: s.wall), default=None)
    for target, least, ahead in ((ASYNC, 3.4, 4.8), (THREADS, 1.7, 2.5)):
        measured = target.name in taken.samples
        single = taken.ratio(LIMIT.name, target.name) if measured else None
        peer = taken.ratio(best, target.name) if measured and best else None
        label = f"{plan.runs} runs at once, {target.name}"
        row.goals += [
            Goal(f"{label}, × one commit per step", least, False, single, times),
            Goal(f"{label}, × the best peer ({best or 'none measured'})", ahead, False, peer, times),
        ]
    return row
