"""Commands of others: whose the checks of a handoff are, and the leave without which none of them runs.

Ours is what was stored here, in a home that was made here or named. Another key's actor, an imported file and a home
that was only adopted are somebody else: their commands run once a person agreed to exactly these, by digest, or trusts
the actor. Both are kept in the user's own folder (`home/ours.py`), never where a stranger could have written them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from outlast.errors import ForeignCommands, HandoffInvalid
from outlast.handoffs.anchor import written
from outlast.handoffs.handoff import Contract, Handoff, command_of, rule_of
from outlast.handoffs.verdict import command
from outlast.home import ours
from outlast.ledger.verdict import Reason
from outlast.values.codec import digest, encode
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.handoffs.anchor import FoundHandoff
    from outlast.home.caller import Caller


class Leave(NamedTuple):
    """That the commands with this digest may run. Whoever runs checks compares it with what is to run."""

    digest: str


class Stranger(NamedTuple):
    """Why commands are somebody else's, and the name under which the user may trust who stored them."""

    why: str
    name: str = ""  # "": no name vouches for them


# -- what there is to agree to -----------------------------------------------------------------------


def digest_of(about: Contract) -> str:
    """What is agreed to: every check in its order, with its command, folder, exit and time, or its file and rule."""
    return digest(encode([_form(form) for form in about.acceptance_checks]))


def _form(form: str | dict[str, object]) -> list[object]:
    asked = command_of(form)
    if asked is not None:
        return ["run", asked.run, asked.cwd, asked.exit, asked.timeout_seconds]
    rule = rule_of(form)
    return ["file", rule.file, rule.rule, rule.value] if rule else ["none"]


def has_commands(about: Contract) -> bool:
    """Whether anything would run; rules about files are only looked at."""
    return any(command_of(form) is not None for form in about.acceptance_checks)


def shown(about: Contract) -> str:
    """Every check in full, a line each; what cannot be printed, or would hide something, is escaped."""
    return "\n".join(_lines(about))


def _lines(about: Contract) -> Iterator[str]:
    for number, form in enumerate(about.acceptance_checks, 1):
        asked, rule = command_of(form), rule_of(form)
        if asked is not None:
            timeout = "" if asked.timeout_seconds is None else f", timeout {asked.timeout_seconds:g} s"
            yield f"  {number}. run {asked.run!r} in {asked.cwd or '.'!r}, exit {asked.exit}{timeout}"
        elif rule is not None:
            yield f"  {number}. look at {rule.file!r}: {rule.rule}{f' {rule.value!r}' if rule.value else ''}"


# -- whose they are ----------------------------------------------------------------------------------


def foreign_to(caller: Caller, found: FoundHandoff | None) -> str:
    """Why the commands of a recorded handoff may not run here unasked; "" when they may, or there are none.

    Of a server, which runs none: why they are not those of who asks. What he agreed to is known where he is.
    """
    stranger = _stranger(caller, found) if found is not None and has_commands(found.handoff) else None
    if found is None or stranger is None:
        return ""
    return stands_against(found.handoff, stranger) if caller.looks else stranger.why


def _stranger(caller: Caller, found: FoundHandoff) -> Stranger | None:
    """Who else wrote them, as the record shows; None when that was done here. A hook only carries them on."""
    wrote = caller.home.store.read(lambda look: written(look, found)) if found.handoff.source == "hook" else found
    if wrote is None:
        return Stranger("who wrote them cannot be told: a revision before this one cannot be read")
    stored, served = wrote.handoff, bool(caller.key_id) and caller.looks
    if wrote.arrived:
        return Stranger("they were imported from a file")
    if stored.key_id and (served or stored.actor != caller.actor):  # on a server no key's actor is at home
        return Stranger(f"they were stored by {stored.actor!r}, over HTTP by key {stored.key_id}", stored.actor)
    if not caller.looks:
        return Stranger(f"they were stored by {stored.actor!r}") if stored.actor != caller.actor else None
    return Stranger("they are in a home that was not made here") if caller.home.adopted else None


def stands_against(about: Contract, stranger: Stranger) -> str:
    """Why commands of somebody else may not run; "" when they are agreed to, stored from here, or he is trusted."""
    mark = digest_of(about).encode()
    if mark in ours.lines(ours.AGREED) or mark in ours.lines(ours.STORED):
        return ""
    return "" if stranger.name and stranger.name in ours.trusted() else stranger.why


def note_of(about: Handoff, why: str, *words: str) -> Reason | None:
    """The reason that says so beside the verdict; None when nothing stands against them."""
    if not why:
        return None
    mark = digest_of(about)
    found = f"{why}; their digest is {mark}"
    advice = f"read them; to run exactly these: {agreeing(about, mark, *words)}"
    return Reason("foreign_commands", about.anchor, "yours, or agreed to", found, advice)


# -- leave -------------------------------------------------------------------------------------------


def own(about: Contract) -> Leave:
    """Leave for what the caller himself gives in this call."""
    return Leave(digest_of(about))


def leave(caller: Caller, found: FoundHandoff | None, about: Handoff, agree: str | None) -> Leave:
    """Leave for the commands of a recorded handoff. Raises ForeignCommands."""
    if not caller.looks:  # a server runs none
        return own(about)
    return given(about, foreign_to(caller, found), agree)


def given(about: Handoff, why: str, agree: str | None, *words: str) -> Leave:
    """Leave for commands that are somebody else's if there is a `why`. Raises ForeignCommands.

    What is agreed to is remembered. Having agreed to other commands than those that are there is refused in any case.
    """
    mark = digest_of(about)
    if agree is not None and agree != mark:
        raise _refused(about, mark, f"what was agreed to is {agree!r:.100}", words)
    if why and agree is None:
        raise _refused(about, mark, why, words)
    if why:
        ours.add(ours.AGREED, mark.encode())
    return Leave(mark)


def _refused(about: Handoff, mark: str, why: str, words: tuple[str, ...]) -> ForeignCommands:
    return ForeignCommands(about.anchor, why, shown(about), mark, agreeing(about, mark, *words))


def agreeing(about: Handoff, mark: str, *words: str) -> str:
    """The command by which a person agrees to these commands, and runs them."""
    return command(about, "verify", "--agree", mark, *words)


def stored_here(about: Contract) -> None:
    """Remember that this user handed these commands over himself: they are his wherever they come back from."""
    if has_commands(about):
        ours.add(ours.STORED, digest_of(about).encode())


def check_agree(agree: str | None, *, runs: bool) -> None:
    """Raises HandoffInvalid for an agreement that is none, or where nothing is run."""
    if agree is None:
        return
    if not isinstance(agree, str) or not agree:
        raise HandoffInvalid("agree", "it is no digest", "give the digest that was shown with the commands")
    if not runs:
        raise HandoffInvalid("agree", "no check is run by this call", "leave it out, or let the checks run")
