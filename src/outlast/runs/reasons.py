"""The reasons that a run's own calls give: effects in doubt, and work that stopped half way."""

from __future__ import annotations

from collections.abc import Mapping

from outlast.ledger.verdict import Reason
from outlast.runs.call import Call, Ledger


def reasons_of(ledger: Ledger, names: Mapping[Call, str], run_id: str) -> list[Reason]:
    """The reasons that the calls themselves give: effects in doubt, and work that stopped half way."""
    reasons = []
    for past in ledger.calls.values():
        label = names.get(past.call, "")
        if past.in_doubt and past.last.mark != "probed":
            reasons.append(
                Reason(
                    "effect_in_doubt",
                    label,
                    "an outcome",
                    f"attempt {past.attempts} {past.last.status}",
                    f"decide: outlast.retry, outlast.skip or outlast.abort for {run_id} {label}",
                )
            )
        elif past.kind == "step" and (past.open or past.last.status == "interrupted"):
            found = f"attempt {past.attempts} {past.last.status}"
            reasons.append(Reason("partial_work", label, "an outcome", found, "resuming tries the step again"))
    return reasons
