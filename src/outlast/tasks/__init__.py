"""Tasks as a host sees them."""
