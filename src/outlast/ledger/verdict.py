"""The verdict: how far to trust what is found, with every reason for it. One pure function."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr

from outlast.values.codec import encode, identity

CONTESTS = (
    *("integrity_broken", "file_changed", "file_missing", "must_violated", "check_regressed", "rival", "claimed"),
    *("effect_in_doubt", "effect_inputs_changed", "artifact_corrupt", "artifact_missing", "evidence_contradicted"),
    *("resource_missing", "still_running"),
)
WEAKENS = (
    "unobserved",
    "other_place",  # refused by apply
    *("unbound", "no_checks", "target_absent", "weak", "stale", "diverged", "self_reported", "partial_work"),
    *("auto_composed", "superseded", "code_changed", "inputs_changed", "maybe_done", "failed_before"),
    *("environment_changed", "link_target_changed", "imported", "output_changed"),
    "output_missing",  # contests when a step still to run reads it
)
NOTES = (
    *("foreign_commands", "head_moved", "other_files_changed", "checks_not_run", "masked", "renamed_to"),
    "line_ends_changed",
)
WEIGHTS: dict[str, str] = {
    **dict.fromkeys(CONTESTS, "contests"),
    **dict.fromkeys(WEAKENS, "weakens"),
    **dict.fromkeys(NOTES, "notes"),
}


class Reason(Struct, frozen=True):
    """One fact that bears on the verdict, and the command that clears it."""

    code: str
    subject: str
    expected: str
    found: str
    advice: str
    weight: str = ""  # as its code says, unless it is said here

    def __post_init__(self) -> None:
        if not self.weight:
            force_setattr(self, "weight", WEIGHTS[self.code])
        elif self.weight not in ("contests", "weakens", "notes"):
            raise ValueError(f"{self.weight!r} is no weight")

    @property
    def fingerprint(self) -> str:
        """What an acceptance is bound to: this code, this subject, as found."""
        return identity(encode([self.code, self.subject, self.found]))

    def to_dict(self) -> dict[str, Any]:
        """Its facts, as every door shows them."""
        return {
            "code": self.code,
            "weight": self.weight,
            "subject": self.subject,
            "expected": self.expected,
            "found": self.found,
            "advice": self.advice,
        }


class Verdict(Struct, frozen=True):
    """`trusted`, `candidate` or `contested`, with the reasons."""

    word: str
    reasons: tuple[Reason, ...] = ()

    @property
    def contesting(self) -> tuple[Reason, ...]:
        """The reasons that make it contested; without one it is not."""
        return tuple(reason for reason in self.reasons if reason.weight == "contests")

    def unaccepted(self, fingerprints: Iterable[str]) -> tuple[Reason, ...]:
        """The contesting reasons that nobody has accepted as they are found now."""
        accepted = set(fingerprints)
        return tuple(reason for reason in self.contesting if reason.fingerprint not in accepted)

    def __str__(self) -> str:
        return self.word


def judge(reasons: Iterable[Reason]) -> Verdict:
    """Contested if any reason contests, else candidate if any weakens, else trusted. Order never matters."""
    ordered = tuple(sorted(set(reasons), key=lambda r: (r.weight, r.code, r.subject, r.found, r.expected, r.advice)))
    weights = {reason.weight for reason in ordered}
    word = "contested" if "contests" in weights else "candidate" if "weakens" in weights else "trusted"
    return Verdict(word, ordered)
