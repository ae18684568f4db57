"""`python -m groupage.cli`."""

from groupage.cli.entry import main

main()
