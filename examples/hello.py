"""The twelve lines of the README. Kill it anywhere and run it again: it goes on from where it was."""

from outlast import Outlast, Run, effect, flow, step


@step(retries=2)
def draft(topic: str) -> str:
    return f"All about {topic}."


@effect
def publish(text: str) -> str:
    return f"published: {text}"


@flow
def report(run: Run, topic: str) -> str:
    return publish(draft(topic))


if __name__ == "__main__":  # other processes import this file to go on with its runs
    print(Outlast().run(report, "kelp").unwrap())
