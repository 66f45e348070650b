"""Steps that are commands: processes, transcripts, what they leave."""
