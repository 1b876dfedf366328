"""What a selection moves between machines."""

from dataclasses import astuple, dataclass


@dataclass(frozen=True)
class Traffic:
    """What was sent to and fetched from the machines that have the predictions, without the overhead of messages.

    Attributes:
        tasks: how many pieces of work were sent.
        sent: bytes of the requests: the scoring function, and the positions of rows.
        scores: bytes of the results of passes over the pool.
        rows: how many rows were fetched.
        fetched: bytes of those rows.
    """

    tasks: int = 0
    sent: int = 0
    scores: int = 0
    rows: int = 0
    fetched: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: "Traffic") -> "Traffic":
        return Traffic(*(mine - theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        return (
            f"moved {self.sent:,} bytes of requests, {self.scores:,} of scores and {self.fetched:,} of "
            f"{self.rows:,} rows in {self.tasks:,} tasks"
        )
