"""The tables and figures of the paper, made again."""
