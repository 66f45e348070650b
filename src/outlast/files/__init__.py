"""Files as they are, were and should be: snapshots, changes, git, putting them in place."""
