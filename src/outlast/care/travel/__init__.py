"""Runs and handoffs as files, out and in."""
