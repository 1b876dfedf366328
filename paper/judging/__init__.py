"""The judging of rules on data that had no part in their design: see PLAN.md."""

CLASSES = {
    "letter": 26,
    "satimage": 6,
    "penbased": 10,
    "optdigits": 10,
    "texture": 11,
    "splice": 3,
    "spambase": 2,
    "magic": 2,
    "ag-news": 4,
    "20news": 20,
    "mnist": 10,
}
"""How many classes each data set has."""
