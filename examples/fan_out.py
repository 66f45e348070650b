"""Many calls at once: `asyncio.gather`, `TaskGroup`, `run.map` and a child run, all in one async flow."""

import asyncio

from outlast import AsyncRun, Outlast, flow, step


@step(retries=1)
async def fetch(page: int) -> str:
    await asyncio.sleep(0.01 / page)  # later pages come back first; order across tasks is never identity
    return f"page {page}"


@step
def count_words(text: str) -> int:  # plain: in an async flow, run.step and run.map give it a thread
    return len(text.split())


async def fetch_twice(page: int) -> str:
    first = await fetch(page)
    again = await fetch(page)  # an equal call: told apart by its number in this branch
    return f"{first} + {again}"


@flow
async def crawl(run: AsyncRun, pages: int) -> int:
    numbers = range(1, pages + 1)
    texts = await asyncio.gather(*(fetch_twice(number) for number in numbers))
    counts = await run.map(count_words, texts, concurrency=4)

    async with asyncio.TaskGroup() as group:
        extra = group.create_task(fetch(99))
    counts.append(await run.step(count_words, extra.result()))
    return sum(counts)


@flow
async def crawl_both(run: AsyncRun) -> int:
    small, large = run.spawn(crawl, 2), run.spawn(crawl, 4)  # child runs, each with a journal of its own
    return sum([await small, await large])


if __name__ == "__main__":
    with Outlast() as outlast:
        outcome = outlast.run(crawl_both)
        print(f"{outcome.unwrap()} words")
        for run in reversed(outlast.runs()):
            print(f"{run.id}  {run.flow.rpartition(':')[2]:<12} {run.status}  {len(outlast.receipts(run.id))} receipts")
