"""Whether another process lives."""

import subprocess
import sys

from outlast.home.process import started_at

ENDED_FIRST = """
import ctypes, threading, time
def work() -> None:
    print("works", flush=True)
    time.sleep(600)
threading.Thread(target=work).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_lives_until_its_last_thread_has_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", ENDED_FIRST], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "works\n"
    try:
        state = ""
        while state != "Z":  # its first thread has ended
            with open(f"/proc/{process.pid}/stat") as file:
                state = file.read().rpartition(")")[2].split()[0]
        assert started_at(process.pid) is not None
    finally:
        process.kill()
        process.stdout.close()
    assert process.wait() == -9
    assert started_at(process.pid) is None
