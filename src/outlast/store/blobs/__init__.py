"""Content by digest, in a folder."""
