"""Runs that wait for a worker: in a queue, within limits, and at certain times."""
