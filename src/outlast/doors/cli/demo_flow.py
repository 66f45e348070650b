"""A daily report. Every function writes in diary.txt when it really runs."""

import time
from pathlib import Path

from outlast import KEY, NOT_DONE, Happened, Run, effect, flow, step


def diary(line: str) -> None:
    with Path("diary.txt").open("a") as file:
        file.write(line + "\n")


@step  # a step may run again until it has succeeded
def find_sources(topic: str) -> list[str]:
    diary("find_sources")
    return [f"{topic} source {n}" for n in (1, 2, 3)]


@step
def write_draft(sources: list[str]) -> str:
    diary("write_draft")
    time.sleep(1.5)  # a slow model
    return f"A report on {len(sources)} sources."


def find_published(key: str) -> object:  # asks the other side whether it has it
    return Happened(f"site/{key}") if Path("site", key).exists() else NOT_DONE


@effect(confirm=find_published)  # an effect is never repeated unknowingly
def publish(report: str, *, key: str = KEY) -> str:
    Path("site").mkdir(exist_ok=True)
    Path("site", key).write_text(report)
    diary("publish")
    time.sleep(1.5)  # a slow network: the site has it, the answer is on its way
    return f"site/{key}"


@effect  # nobody can ask a chat whether it got a message
def notify(to: str, link: str) -> str:
    diary("notify")
    time.sleep(1.5)
    return f"told {to}"


@flow
def daily(run: Run, topic: str) -> str:
    sources = find_sources(topic)
    report = write_draft(sources)
    link = publish(report)
    return notify("#team", link)
