"""Stands in for `python WORDS` where somebody else starts it by its name: `relay.py ADDRESS WORDS`.

It has the program forked by a process that has read the code (ready.py), gives it its own streams, folder and
environment, hands on signals, and ends as the program ends.
"""

import json
import os
import signal
import socket
import sys


def main(address: str, *words: str) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asked = os.memfd_create("asked")
    os.write(asked, json.dumps([words, os.getcwd(), dict(os.environ), False]).encode())
    os.lseek(asked, 0, os.SEEK_SET)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
        asking.connect(f"\0{address}")
        socket.send_fds(asking, [b"x"], [theirs.fileno(), asked, 0, 1, 2])
    for end in (theirs.detach(), asked, 0, 1, 2):
        os.close(end)
    pid = int(ours.recv(16))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    code = int(ours.recv(16) or b"1")
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
