"""A home opened: its store, its settings, its process, and who calls."""
