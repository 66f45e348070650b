"""Runs: started, carried out, recovered and looked at."""
