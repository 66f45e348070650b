"""Values of no room: codecs, digests, durations, and what marks the code of the user."""
