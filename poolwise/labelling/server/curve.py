"""The learning curve as a picture, drawn on the server. Colours come from the style sheet."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from poolwise.labelling.store import ModelRecord

# Space around the curve for its labels, in the units of the picture.
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 14.0, 12.0, 34.0


@dataclass(frozen=True)
class Curve:
    """A learning curve.

    Attributes:
        wide: the picture for a screen.
        narrow: the picture for a phone.
        words: the same in words, for people who cannot see it.
        points: labels, accuracy, low and high of each model.
    """

    wide: Markup
    narrow: Markup
    words: str
    points: Sequence[tuple[int, float, float, float]]


def draw_curve(models: Sequence[ModelRecord]) -> Curve | None:
    """The accuracy of each model on the held-out labels; None if no model was measured."""
    points = [
        (model.labels, model.accuracy, model.low or 0.0, 1.0 if model.high is None else model.high)
        for model in models
        if model.accuracy is not None and model.checked
    ]
    if not points:
        return None
    first, last = points[0], points[-1]
    words = (
        f"Learning curve. With {last[0]:,} labels the model is right on {last[1]:.0%} of the held-out items "
        f"(95 % interval {last[2]:.0%} to {last[3]:.0%})."
    )
    if len(points) > 1:
        words += f" With {first[0]:,} labels it was right on {first[1]:.0%}."
    return Curve(_svg(points, 720, 280, words), _svg(points, 340, 230, words), words, points)


def _ticks(most: int) -> list[int]:
    """About four round numbers up to `most`."""
    step = next(s * 10**e for e in range(9) for s in (1, 2, 5) if most <= 5 * s * 10**e)
    return list(range(0, most + 1, step))


def _svg(points: Sequence[tuple[int, float, float, float]], width: int, height: int, words: str) -> Markup:
    most = max(max(point[0] for point in points), 1)
    if len(points) == 1:
        most *= 2  # a single model stands in the middle, not at the edge
    right, bottom = width - _RIGHT, height - _BOTTOM

    def x(labels: float) -> float:
        return round(_LEFT + (right - _LEFT) * labels / most, 1)

    def y(share: float) -> float:
        return round(bottom - (bottom - _TOP) * share, 1)

    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{Markup.escape(words)}" class="curve">']
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y(share)}" y2="{y(share)}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y(share) + 4}" text-anchor="end">{share:.0%}</text>')
    for labels in _ticks(most):
        parts.append(f'<text x="{x(labels)}" y="{bottom + 18}" text-anchor="middle">{labels:,}</text>')
    parts.append(f'<text x="{right}" y="{height - 2}" text-anchor="end">labels the model learnt from</text>')
    upper = " ".join(f"{x(n)},{y(high)}" for n, _, _, high in points)
    lower = " ".join(f"{x(n)},{y(low)}" for n, _, low, _ in reversed(points))
    if len(points) > 1:
        parts.append(f'<polygon class="band" points="{upper} {lower}"/>')
        parts.append(f'<polyline class="line" points="{" ".join(f"{x(n)},{y(a)}" for n, a, _, _ in points)}"/>')
    else:
        n, _, low, high = points[0]
        parts.append(f'<line class="bar" x1="{x(n)}" x2="{x(n)}" y1="{y(low)}" y2="{y(high)}"/>')
    for n, accuracy, low, high in points:
        parts.append(
            f'<circle class="dot" cx="{x(n)}" cy="{y(accuracy)}" r="4"><title>{n:,} labels: {accuracy:.0%} '
            f"({low:.0%} to {high:.0%})</title></circle>"
        )
    return Markup("".join(parts) + "</svg>")
