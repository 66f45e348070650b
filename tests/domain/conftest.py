"""Hypothesis for the pure rules: no deadline, since the machine that runs the tests is shared."""

from hypothesis import HealthCheck, settings

settings.register_profile("holdfast", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("holdfast")
