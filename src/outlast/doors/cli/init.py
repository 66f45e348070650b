"""As process 1 of a container: be its init, and let a child be the command.

The kernel keeps signals from process 1 that it does not handle, and leaves it every orphan to bury.
"""

from __future__ import annotations

import os
import signal

HEARD = {
    signal.SIGCHLD,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
}


def stay_in_front() -> None:
    """Return in the process that is to be the command: this one, or if this is process 1, a child of it.

    Process 1 passes signals on, buries the dead, and exits with the child's code: then the kernel ends what is left.
    """
    if os.getpid() != 1:
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
        return
    while (code := _bury(child)) is None:
        heard = signal.sigwaitinfo(HEARD)
        if heard.si_signo != signal.SIGCHLD and heard.si_code <= 0:  # else it is a terminal's, and the child has it too
            os.kill(child, heard.si_signo)
    os._exit(code)


def _bury(child: int) -> int | None:
    """Reap whoever is dead; the exit code of the child if that is among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == child:
            ended = os.waitstatus_to_exitcode(status)
            code = ended if ended >= 0 else 128 - ended
