"""What matters for a goal, within a budget."""
