"""The six questions, answered from facts."""
