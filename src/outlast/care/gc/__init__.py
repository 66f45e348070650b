"""What may go, and how it goes."""
