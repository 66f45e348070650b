"""What must be kept is kept from the revision that first said so: the next one that repeats it does not begin anew.

Pure. It begins anew, as it is then, once somebody has accepted that it is not as it was, or has left it out of one
revision; when the work was completed; and in another repository.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from outlast.handoffs.handoff import Binding, Bound, Contract, Handoff, must_key
from outlast.handoffs.musts import SINCE, PathRule, broken_path, rule_of_must
from outlast.handoffs.verdict import must_violated


def kept_since(contract: Contract, before: Handoff, now: Binding, accepted: Collection[str] = ()) -> Binding:
    """What was bound now, with the files of musts that the revision before has too as they were bound there.

    `accepted`: the fingerprints of what somebody accepted of that one. A must that is violated just so begins anew.
    """
    then = before.binding
    if then is None or not _same_place(then, now):
        return now
    musts, unkept = dict(now.musts), dict(now.unkept)
    for form in contract.must_keep:
        rule = rule_of_must("must_keep", form, then) if form in before.must_keep else None
        if not isinstance(rule, PathRule):
            continue
        if wrong := broken_path(rule, then.musts, now.musts):
            if must_violated(before, form, wrong).fingerprint in accepted:
                continue
            unkept[must_key("must_keep", form)] = SINCE + wrong.removeprefix("is not as it was")
        musts = _as_then(rule, musts, then)
    return replace(now, musts=musts, unkept=unkept)


def changed_since(contract: Contract, before: Handoff, now: Binding) -> Binding:
    """The same of what must change: it has changed already if it did since the revision before was stored."""
    then, musts = before.binding, dict(now.musts)
    if then is None or not _same_place(then, now):
        return now
    for form in contract.must_change:
        rule = rule_of_must("must_change", form, then) if form in before.must_change else None
        if isinstance(rule, PathRule):
            musts = _as_then(rule, musts, then)
    return replace(now, musts=musts)


def _as_then(rule: PathRule, musts: Mapping[str, Bound], then: Binding) -> dict[str, Bound]:
    meant = rule.of(musts)
    return {path: each for path, each in musts.items() if path not in meant} | rule.of(then.musts)


def _same_place(then: Binding, now: Binding) -> bool:
    """Whether paths mean the same in both: the same repository, as every clone knows it, or the same folder."""
    if then.commit or now.commit:
        same = then.commit == now.commit or not {*then.known_by}.isdisjoint(now.known_by)
        return then.prefix == now.prefix and (same or _same_folder(then, now))
    return _same_folder(then, now)


def _same_folder(then: Binding, now: Binding) -> bool:
    return (then.host, then.root) == (now.host, now.root)
