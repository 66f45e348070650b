"""Rows 1 and 2: steps as they happen, one run alone and many at once."""

from measure import Rounds, Sample, ask_in_rounds
from plan import ASYNC, DEF, GROUP, LIMIT, THREADS, Plan
from report import Goal, Row, count, microseconds, times


def one_step(plan: Plan) -> Row:
    taken = Rounds(base=LIMIT.name)
    ask_in_rounds(
        taken,
        [LIMIT, DEF, ASYNC, *plan.peers],
        plan.scratch,
        plan.rounds,
        warm={"verb": "sequential", "steps": 1_000},
        request={"verb": "sequential", "steps": plan.steps},
    )
    columns = ["one run", "µs per step", "× the limit", "CPU µs per step", "own CPU µs"]
    row = Row(1, "One durable step, sequential, synced", columns, failed=taken.failed)

    def own(sample: Sample, bare: Sample) -> float:
        return (sample.cpu - bare.cpu) / plan.steps * 1e6

    for name in taken.samples:
        row.lines.append(
            [
                name,
                count(taken.median(name, lambda s: s.wall / plan.steps * 1e6)),
                times(taken.ratio(name, LIMIT.name)),
                count(taken.median(name, lambda s: s.cpu / plan.steps * 1e6)),
                count(taken.compare(name, LIMIT.name, own)),
            ]
        )
    for target, bound in ((DEF, 1.25), (ASYNC, 1.5)):
        slower = taken.ratio(target.name, LIMIT.name) if target.name in taken.samples else None
        cpu = taken.compare(target.name, LIMIT.name, own) if target.name in taken.samples else None
        row.goals += [
            Goal(f"one durable step, {target.name}, × the limit", bound, True, slower, times),
            Goal(f"one durable step, {target.name}, own CPU", 60, True, cpu, microseconds),
        ]
    row.notes.append(
        "Own CPU is the CPU time of the whole process less that of the bare commit. Each figure "
        f"spreads the start and the end of a run over its {plan.steps} steps. "
        "The limit, asked twice, is compared with itself: what its ratio differs from 1 is noise."
    )
    return row


def many_runs(plan: Plan) -> Row:
    ours = [ASYNC, THREADS]
    taken = Rounds()
    ask_in_rounds(
        taken,
        [LIMIT, GROUP, *ours, *plan.peers],
        plan.scratch,
        plan.together_rounds,
        warm={"verb": "together", "runs": plan.runs, "steps": 50},
        request={"verb": "together", "runs": plan.runs, "steps": plan.run_steps},
    )
    total = plan.runs * plan.run_steps
    title = f"{plan.runs} runs × {plan.run_steps} steps at once, synced"
    row = Row(2, title, ["at once", "steps/s", "× one commit per step"], failed=taken.failed)
    for name in taken.samples:
        speed = count(taken.median(name, lambda s: total / s.wall))
        row.lines.append([name, speed, times(taken.ratio(LIMIT.name, name))])
    peers = [peer.name for peer in plan.peers if peer.name in taken.samples]
    best = min(peers, key=lambda name: taken.median(name, lambda s: s.wall), default=None)
    for target in ours:
        measured = target.name in taken.samples
        single = taken.ratio(LIMIT.name, target.name) if measured else None
        peer = taken.ratio(best, target.name) if measured and best else None
        label = f"{plan.runs} runs at once, {target.name}"
        row.goals += [
            Goal(f"{label}, × one commit per step", 4, False, single, times),
            Goal(f"{label}, × the best peer ({best or 'none measured'})", 6, False, peer, times),
        ]
    return row
