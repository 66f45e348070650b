"""Finding and masking what must not be kept."""
