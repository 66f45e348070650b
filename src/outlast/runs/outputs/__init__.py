"""What a run leaves: the files of its steps, what is put back of them, and what it says and saves in the workspace."""
