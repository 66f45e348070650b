"""`outlast notify`: who is told when something waits for a person, fails, or has ended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli import late
from outlast.doors.cli.group import CommandGroup, Sections
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.render import emit, note, say, table
from outlast.errors import NameInvalid

if TYPE_CHECKING:
    from outlast.worker.targets import Target

SECTIONS: Sections = {
    "Notifications": {
        "add": ("notify:add", "Tell somebody; the same name changes it."),
        "list": ("notify:list_", "Everybody who is told, and how far."),
        "remove": ("notify:remove", "Tell one no more."),
        "test": ("notify:test", "Send a message that only shows that it arrives."),
        "send": ("notify:send", "Tell everybody what they were not told yet, and end."),
    },
}
KINDS = ("webhook", "slack", "email", "command")


@click.group("notify", cls=CommandGroup, sections=SECTIONS)
def notify() -> None:
    """Who is told when something waits for a person, fails, or has ended."""


@command("add")
@click.argument("name", metavar="NAME")
@click.argument("kind", metavar="KIND", type=click.Choice(KINDS))
@click.argument("to", metavar="TO")
@click.option(
    "--on", multiple=True, metavar="WHAT", help="opened, deadline, doubt, failed, crashed, finished, contested."
)
@click.option("--link", default="", metavar="URL", help="Where the console is, as who is told reaches it.")
@click.option("--answers", default="", metavar="WHO", help="Messages carry a link by which WHO answers.")
@click.option("--private", is_flag=True, help="Its address may be one of this machine or its network.")
@click.option("--server", default="", metavar="HOST[:PORT]", help="Of e-mail: the SMTP server.")
@click.option("--user", default="", metavar="USER", help="Of e-mail: who signs in there.")
@click.option("--sender", default="", metavar="ADDRESS", help="Of e-mail: whom it is from.")
@click.option("--secret-env", default="", metavar="NAME", help="The variable that has the secret or password [made].")
def add(call: Invocation, name: str, secret_env: str, on: tuple[str, ...], **given: Any) -> None:
    """Tell TO by a webhook, a chat that takes Slack's form, an e-mail, or a command that gets the message as JSON.

    A new target is told what comes from now on, by every `outlast work` and `outlast serve` of this home. The secret by
    which a webhook is signed is made unless it is given, and shown once; it is kept in notify.json, which only you can
    read.
    """
    home = late.backups.folder_of(call.home, note)
    secret = os.environ.get(secret_env, "") if secret_env else ""
    if secret_env and not secret:
        raise NameInvalid("secret-env", secret_env, "that variable is empty or not set")
    known: dict[str, Any] = {"tenant": call.tenant or "default"} | ({"on": on} if on else {})
    made = late.targets.checked(late.targets.Target(name=name, secret=secret, **given, **known))
    targets = late.targets.Targets(home)
    before = targets.known(name)
    with call.open(make=True) as outlast:
        with late.door.noting_target(outlast, name, before.recorded() if before else None, made.recorded()):
            targets.add(made)
        late.notify.Notifier(outlast, home, made.tenant).begin(made)
    told = made.shown() | ({"secret": made.secret} if not secret else {})
    call.tell_line(told, f"{made.name} is told of {', '.join(made.on)} from now on")
    if made.kind == "webhook" and not secret and not call.json:
        note(f"its secret, not shown again: {made.secret}")


@command("list")
def list_(call: Invocation) -> None:
    """Everybody who is told, of what, and whether that works."""
    home = late.backups.folder_of(call.home, note)
    found = late.targets.Targets(home).all()
    if not found and not call.json:
        say("nobody is told; add somebody: outlast notify add NAME webhook URL")
        return
    standing = _standing(call, found) if found else {}
    if call.json:
        emit({"targets": [each.shown() | {"not_taken": standing.get(each.name, "")} for each in found]})
        return
    rows = [(t.name, t.kind, t.to, t.tenant, ", ".join(t.on), standing.get(t.name) or "-") for t in found]
    table(("TARGET", "KIND", "TO", "TENANT", "OF", "NOT TAKEN"), rows)


def _standing(call: Invocation, targets: list[Target]) -> dict[str, str]:
    """Why the targets of this tenant do not take what they are told; nothing of those that do."""
    with call.open(make=True) as outlast:
        notifier = late.notify.Notifier(outlast, late.backups.folder_of(call.home), call.tenant or "default")
        mine = [target for target in targets if target.tenant == (call.tenant or "default")]
        told = {target.name: notifier.told(target) for target in mine}
    return {name: f"{each.error} (try {each.tries})" for name, each in told.items() if each.tries}


@command("remove")
@click.argument("name", metavar="NAME")
def remove(call: Invocation, name: str) -> None:
    """Tell one no more."""
    targets = late.targets.Targets(late.backups.folder_of(call.home, note))
    found = targets.named(name)
    with call.open(make=True) as outlast, late.door.noting_target(outlast, name, found.recorded(), None):
        done = targets.remove(name)
    emit(done.shown()) if call.json else say(f"{done.name} is told no more")


@command("test")
@click.argument("name", metavar="NAME")
def test(call: Invocation, name: str) -> None:
    """Send a message that only shows that it arrives."""
    target = late.targets.Targets(late.backups.folder_of(call.home, note)).named(name)
    try:
        late.targets.send(target, late.notify.trial(target))
    except late.targets.NotTaken as error:
        raise NameInvalid("target", name, f"it did not take the message: {error}") from error
    emit({"sent": True}) if call.json else say(f"{name} took it")


@command("send")
def send(call: Invocation) -> None:
    """Tell everybody what they were not told yet, and end; for cron, where nobody works and no server runs."""
    home = late.backups.folder_of(call.home, note)
    with call.open() as outlast:
        sent = late.notify.Notifier(outlast, home, call.tenant or "default", tell=note).send_all()
    emit({"sent": sent}) if call.json else say(f"{sent} sent")
