"""What everything is written in: the journal, leases and the verdict. Pure."""
