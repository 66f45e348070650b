"""What gets past a gate: where work waits for a person, these let it go on. Doors ask for the right to use them."""

from __future__ import annotations

# Fields of a call, by whatever door, that take something upon oneself which stopped the work. Calls that do so by
# themselves (answer, cancel, skip, rewind, and retry of an effect) say so in the tables of the doors.
GATES = ("accept", "take", "override", "again", "fork")
GATES_OF_RESUME = (*GATES, "flow")  # another flow that the run goes on with may ask nobody
