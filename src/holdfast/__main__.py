"""`python -m holdfast`: the command where its script is not on the path."""

from holdfast.doors.cli import main

main()
