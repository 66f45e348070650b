"""`python -m outlast`: the command where its script is not on the path."""

from outlast.doors.cli import main

main()
