"""Artifacts, records, links and checkpoints, and what they rest on."""
