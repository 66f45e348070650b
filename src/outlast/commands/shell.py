"""Which shell a command of a flow file is given to, and when that stops at the first line that fails."""

from __future__ import annotations

import shlex

_LOOSE = {"sh": ("/bin/sh",), "bash": ("bash",)}
_STRICT = {"sh": ("/bin/sh", "-e"), "bash": ("bash", "-eo", "pipefail")}
_REFUSED = 'echo "not accepted (exit $?): $text" >&2; printf %s "$text" > "$OUTLAST_REFUSED"; exit 1'


def work_shell(shell: str, command: str) -> tuple[str, ...]:
    """The shell for work: one that fails with the first line that does. A single line of `sh` is as it is written."""
    return _STRICT[shell] if shell != "sh" or "\n" in command.strip() else _LOOSE[shell]


def question_shell(shell: str) -> tuple[str, ...]:
    """The shell for a question (`when`, `until`, `confirm`): its exit is the answer, so no line fails it early."""
    return _LOOSE[shell]


def accepting(shell: str, run: str, checks: tuple[str, ...]) -> str:
    """A script for plain `sh`: the work, then each check in its turn; the first that fails is named."""
    parts = [_given(shell, run, "exit $?"), *(_given(shell, check, _REFUSED) for check in checks)]
    return "\n".join(parts)


def _given(shell: str, command: str, otherwise: str) -> str:
    words = shlex.join(work_shell(shell, command))
    return f'text={shlex.quote(command)}\n{words} -c -- "$text" || {{ {otherwise}; }}'
