"""Handoffs: stored, recovered with a verdict, claimed, settled, carried elsewhere."""
