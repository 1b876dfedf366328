"""`python -m paper.study` is `python -m paper study`."""

import sys

from paper.command import main

sys.argv.insert(1, "study")
main()
