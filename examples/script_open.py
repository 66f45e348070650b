"""Around existing code, without a flow: the block is the body. Run the script again to continue it.

Here the "again" happens in the same script, so that the example shows it: the first pass fails after the
fetch, the second goes on from there.
"""

from outlast import Outlast

fetched: list[str] = []


def fetch(url: str) -> list[int]:
    fetched.append(url)
    return [3, 1, 2]


def save(rows: list[int]) -> str:
    return f"{len(rows)} rows saved"


def nightly(outlast: Outlast, *, broken: bool) -> str:
    with outlast.open("nightly") as run:
        rows = run.step(fetch, "https://example.org/rows")
        if broken:
            raise ConnectionError("the network went away")
        return run.effect(save, sorted(rows))


if __name__ == "__main__":
    with Outlast() as outlast:
        before = len(outlast.runs())  # of an earlier run of this example: an opened script starts anew once it is done
        try:
            nightly(outlast, broken=True)
        except ConnectionError as error:
            print(f"first pass: {error}; the run is {outlast.runs()[0].status}")
        print(f"second pass: {nightly(outlast, broken=False)}; the run is {outlast.runs()[0].status}")
        assert len(fetched) == 1, "the finished step was not repeated"
        assert len(outlast.runs()) == before + 1, "both passes are one run"
