"""Interrupts: asked, answered, signalled."""
