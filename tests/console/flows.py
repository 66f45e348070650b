"""Flows whose runs the pages of the tests show."""

import os
import signal
import time
from pathlib import Path

from outlast import Run, effect, flow, step


@step
def find(topic: str) -> list[str]:
    return [topic, topic.upper()]


@effect
def publish(words: list[str]) -> str:
    return "published " + " ".join(words)


@flow(name="report")
def report(run: Run, topic: str, shown: dict | None = None) -> str:
    words = find(topic)
    answer = run.pause_for("approval", payload={"question": f"Publish {topic}?"} | (shown or {}))
    return publish(words) if answer["approved"] else "not published"


@flow(name="hurried")
def hurried(run: Run) -> bool:
    asked = {"question": "Now or never?"}
    return bool(run.pause_for("approval", payload=asked, deadline=0.001, default={"approved": False})["approved"])


@flow(name="survey")
def survey(run: Run) -> dict:
    schema = {
        "type": "object",
        "properties": {
            "rooms": {"type": "integer", "description": "how many"},
            "size": {"enum": ["small", "large"]},
            "note": {"type": "string"},
            "urgent": {"type": "boolean"},
        },
        "required": ["rooms", "size"],
    }
    return run.pause_for("survey", payload={"question": "How many rooms?"}, schema=schema)


@step
def stumble(path: str) -> str:
    return Path(path).read_text()


@flow(name="stumbling")
def stumbling(run: Run, path: str) -> str:
    return stumble(path)


@step
def tick(number: int) -> int:
    return number


@flow(name="counting")
def counting(run: Run, upto: int) -> int:
    return sum(tick(number) for number in range(upto))


@step
def until_there(path: str) -> str:
    while not os.path.exists(path):
        time.sleep(0.01)
    return "there"


@flow(name="watching")
def watching(run: Run, path: str) -> str:
    run.phase = "looking"
    found = until_there(path)
    run.phase = "found it"
    return found


@effect
def pay() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@flow(name="paying")
def paying(run: Run) -> None:
    pay()


@flow(name="striding")
def striding(run: Run, path: str) -> int:
    until_there(path)
    return tick(1)


@flow(name="listening")
def listening(run: Run) -> str:
    return str(run.wait_for("tide"))


@flow(name="publishing")
def publishing(run: Run, letters: int) -> str:
    return publish(["x" * letters])


@step
def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@flow(name="dying")
def dying(run: Run) -> None:
    die()


@flow(name="delivering")
def delivering(run: Run, path: str) -> str:
    publish(find("kelp"))
    return stumble(path)
