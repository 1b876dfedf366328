"""`python -m paper FIGURE`, from the folder of the repository."""

import sys

try:
    from paper.command import main
except ModuleNotFoundError as error:
    print(
        f"python -m paper: {error.name} is not installed. In the folder of the repository, run make test, or "
        "pip install -c constraints.txt -e '.[dev]', and then use that Python.",
        file=sys.stderr,
    )
    sys.exit(2)

main()
