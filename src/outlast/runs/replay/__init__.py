"""The body on its receipts only."""
