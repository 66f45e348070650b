"""The way in which tests ask what grows: a square is told from a line, also on a busy machine."""

from ..kit.cost import MOST, growth


def squared(size: int) -> int:
    return sum(1 for _ in range(size) for _ in range(size))


def test_what_grows_with_the_square_is_found_and_what_grows_with_the_size_is_not() -> None:
    assert growth(lambda: squared(150), lambda: squared(600)) > MOST
    assert growth(lambda: sum(range(50_000)), lambda: sum(range(200_000))) < MOST
