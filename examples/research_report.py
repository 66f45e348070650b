"""A small research report: injected resources, state, a map, typed results, an effect that can be confirmed."""

from dataclasses import dataclass
from pathlib import Path

from outlast import KEY, NOT_DONE, Happened, Outlast, Run, effect, flow, inject, step


@dataclass(frozen=True)
class Source:
    title: str
    year: int


class Search:
    """Stands for a live client. It is never saved: every process provides its own."""

    def find(self, topic: str) -> list[Source]:
        return [Source(f"{topic}, volume {number}", 2020 + number) for number in range(1, 4)]


class Site:
    """Stands for the outside world: a folder in which each page is published under a key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def page(self, key: str) -> Path:
        return self.folder / f"{key}.md"


@step(retries=2, timeout="30s", agent="researcher")
def find_sources(topic: str, *, search: Search = inject("search")) -> list[Source]:
    return search.find(topic)


@step(agent="reader")
def summarise(source: Source) -> str:
    return f"- {source.title} ({source.year})"


def find_published(key: str, site: Site = inject("site")) -> object:
    """The probe: asked only when nobody knows whether `publish` happened."""
    page = site.page(key)
    return Happened(page.name) if page.exists() else NOT_DONE


@effect(confirm=find_published, not_done=(ConnectionError,))
def publish(report: str, *, key: str = KEY, site: Site = inject("site")) -> str:
    page = site.page(key)
    page.write_text(report)
    return page.name


@flow
def research_report(run: Run, topic: str) -> str:
    run.phase = "searching"
    sources = find_sources(topic)
    run.state["sources"] = len(sources)

    run.phase = "writing"
    lines = run.map(summarise, sources, concurrency=3)
    report = "\n".join([f"# {topic}, as of {run.now():%Y-%m-%d}", *lines])

    run.phase = "publishing"
    return publish(report)


def main() -> None:
    with Outlast() as outlast:
        outlast.resource("search", factory=Search)
        outlast.resource("site", Site(Path("site")))
        outcome = outlast.run(research_report, "Kelp")
        page = Path("site") / outcome.unwrap()
        print(page.read_text())
        for receipt in outlast.receipts(outcome.run_id):
            print(f"{receipt.seq:>3}  {receipt.label:<24} {receipt.agent or '-':<10} {receipt.status}")


if __name__ == "__main__":
    main()
