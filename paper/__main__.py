"""`python -m paper FIGURE` from the repository's folder."""

from paper.command import main

main()
