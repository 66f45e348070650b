"""Which rules may find something in a text is seen in one reading, and is what looking for hint after hint finds."""

from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.secrets.find import _MANY, _near, without_colours
from outlast.secrets.rules import RULES, WORD, SecretRule

HINTS = [hint for rule in RULES for hint in rule.hints]
ODD = st.text(st.sampled_from('aZ0é漢İΣſK\u2003\xa0\x1c\x85" \n\t=:/_-.\x1b[m\ud800'), max_size=30)
PARTS = st.sampled_from(HINTS) | st.sampled_from(HINTS).map(str.swapcase) | ODD | st.just("x" * WORD)


def one_after_another(text: str, rules: tuple[SecretRule, ...]) -> set[SecretRule]:
    """By the definition: a hint stands in the text, or in a long word of it."""
    text = f"{text}\n{without_colours(text).text}" if "\x1b[" in text else text
    words = [text] if len(text) > _MANY else text.replace('"', " ").split()
    long = "\n".join(word for word in words if len(word) >= WORD)

    def has(rule: SecretRule, hint: str) -> bool:
        if not rule.cased:
            return hint.lower() in text.lower() or (rule.in_word and hint in long and bool(long))
        return bool(long) and hint in long if rule.in_word else hint in text

    return {rule for rule in rules if any(has(rule, hint) for hint in rule.hints or ("",))}


@settings(max_examples=300, deadline=None)
@given(st.lists(PARTS, max_size=12), st.sampled_from(["", " ", "\n"]))
def test_one_reading_finds_the_rules_that_looking_for_each_hint_does(parts: list[str], between: str) -> None:
    text = between.join(parts)
    assert set(_near(text, RULES)) == one_after_another(text, RULES)
    assert set(_near(text, RULES[:3])) == one_after_another(text, RULES[:3])
