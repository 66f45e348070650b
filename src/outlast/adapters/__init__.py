"""Outlast with what others run: each adapter is an extra, and loads its library when it is first used."""
