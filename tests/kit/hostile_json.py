"""Bodies that mean no good: each shape at any length, for whoever measures what reading them costs."""

from collections.abc import Callable

Shape = Callable[[int], bytes]


def keys(names: list[bytes]) -> bytes:
    return b"{" + b",".join(b'"%s":1' % name for name in names) + b"}"


# The letters are about as many as asked for, so that four times the number is four times the work.
SHAPES: dict[str, Shape] = {
    "an open text of escaped quotes": lambda n: b"{}" * 300 + b'"' + rb"\"" * (n // 2),
    "an open text of escaped quotes, and brackets": lambda n: b'"' + rb"\"" * (n // 2) + b"[" * 300,
    "open texts of backslashes": lambda n: b"[]" * 300 + rb'"\"\\' * (n // 5),
    "backslashes": lambda n: b"[]" * 300 + b'"' + b"\\" * n,
    "backslashes and a break": lambda n: b"[]" * 300 + b'"\\\n' * (n // 3),
    "quotes": lambda n: b"[]" * 300 + b'"' * n,
    "lists in lists": lambda n: b"[" * n,
    "objects in objects": lambda n: b'{"a":' * (n // 5),
    "deep within, and wide": lambda n: b"[" + b",".join([b"[" * 240 + b"]" * 240] * (n // 480)) + b"]",
    "lists side by side": lambda n: b"[" + b",".join([b"[]"] * (n // 3)) + b"]",
    "objects side by side": lambda n: b"[" + b",".join([b"{}"] * (n // 3)) + b"]",
    "closed more than opened": lambda n: b"[]" * 300 + b"]" * n,
    "every key twice": lambda n: keys([b"%d" % (each // 2) for each in range(n // 10)]),
    "the last key twice": lambda n: keys([*(b"%d" % each for each in range(n // 10)), b"%d" % (n // 10 - 1)]),
    "one key again and again": lambda n: keys([b"a"] * (n // 6)),
    "keys": lambda n: keys([b"%d" % each for each in range(n // 10)]),
    "long keys that begin alike": lambda n: keys([b"a" * 1000 + b"%d" % each for each in range(n // 1010)]),
    "a long key": lambda n: keys([b"a" * n]),
    "a key like an error": lambda n: keys([b" - at `$" * (n // 8)]),
    "digits": lambda n: b'{"a":' + b"9" * n + b"}",
    "digits of a fraction": lambda n: b'{"a":0.' + b"9" * n + b"}",
    "digits of an exponent": lambda n: b'{"a":1e' + b"9" * n + b"}",
    "digits that the exponent takes back": lambda n: b'{"a":' + b"9" * n + b"e-%d}" % n,
    "numbers as long as may be": lambda n: b"[" + b",".join([b"9" * 4300] * (n // 4301)) + b"]",
    "numbers": lambda n: b"[" + b",".join([b"1"] * (n // 2)) + b"]",
    "escapes": lambda n: b'{"a":"' + rb"\u0061" * (n // 6) + b'"}',
    "half pairs": lambda n: b'{"a":"' + rb"\ud800" * (n // 6) + b'"}',
    "commas": lambda n: b"[" + b"," * n,
    "blanks": lambda n: b" \n" * (n // 2),
    "not UTF-8": lambda n: b'"' + b"\xff" * n,
    "not UTF-8 at the end": lambda n: b'{"a":"' + b"a" * n + b'\xc3"}',
    "NUL": lambda n: b"\0" * n,
}
