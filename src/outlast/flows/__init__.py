"""Flows: what a decorator or a flow file says of one, and how it is found again."""
