"""Live objects that are never saved: opened, looked after, closed."""
