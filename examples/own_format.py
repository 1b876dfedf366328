"""A file format of your own: one text per line with a sign in front."""

from pathlib import Path

import poolwise as pw


@pw.data.reader(".lines")
def read_lines(path, *, good="+"):
    """Texts with a sign in front; a question mark is an unknown label."""
    rows = [line.split(" ", 1) for line in path.read_text().splitlines()]
    labels = [None if sign == "?" else "good" if sign == good else "bad" for sign, _ in rows]
    return [text for _, text in rows], labels


Path("reviews.lines").write_text("+ what a fine film\n- two hours of my life\n+ I laughed\n? my sister has seen it\n")
data = pw.data.open_data("reviews.lines")
print(data)
print([data.class_names[label] if label >= 0 else "unknown" for label in data.labels])
