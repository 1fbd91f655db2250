"""The curve as a picture for the docs: plain SVG, readable on light and on dark pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.joint_curve import DEFAULTS, Answers, Point, curve, figures, point

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "joint-accuracy.svg"
WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 62, 20, 56, 350
SHARES = (0.0, 0.5)
ACCURACIES = (0.955, 0.99)
NAMES = {
    "confidence": "confidence",
    "margin": "margin",
    "crossEntropy": "cross-entropy",
    "random": "random (no policy at all)",
}
STYLE = """
  svg { color-scheme: light dark; }
  text { font: 13px system-ui, sans-serif; fill: #24292f; }
  .title { font-size: 16px; font-weight: 600; }
  .quiet { fill: #57606a; font-size: 12px; }
  .grid { stroke: #8c959f; stroke-opacity: .35; }
  .level { stroke: #57606a; stroke-dasharray: 5 4; }
  .line { fill: none; stroke-width: 2.5; stroke-linejoin: round; }
  .confidence { stroke: #0969da; } .margin { stroke: #1a7f37; } .crossEntropy { stroke: #bc4c00; }
  .random { stroke: #8c959f; stroke-dasharray: 2 4; }
  .default { stroke: none; } .default.confidence { fill: #0969da; } .default.margin { fill: #1a7f37; }
  .default.crossEntropy { fill: #bc4c00; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .quiet { fill: #9198a1; } .level { stroke: #9198a1; }
    .confidence { stroke: #58a6ff; } .margin { stroke: #3fb950; } .crossEntropy { stroke: #f0883e; }
    .default.confidence { fill: #58a6ff; } .default.margin { fill: #3fb950; } .default.crossEntropy { fill: #f0883e; }
  }
"""


def draw(answers: Answers) -> str:
    """The whole picture; its description has the figures, for readers who do not see it and for the test."""
    told = "; ".join(f"{name} {value:.3f}" for name, value in figures(answers).items())
    parts = [*axes(), *levels(answers), *lines(answers), *defaults(answers), *legend(answers)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">',
            "<title>Accuracy of edge and cloud together, over the share of rows that go to the cloud</title>",
            f"<desc>{told}</desc>",
            f"<style>{STYLE}</style>",
            *parts,
            "</svg>\n",
        ]
    )


def x(share: float) -> float:
    low, high = SHARES
    return LEFT + (share - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def y(accuracy: float) -> float:
    low, high = ACCURACIES
    return BOTTOM - (accuracy - low) / (high - low) * (BOTTOM - TOP)


def text(left: float, top: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{left:.1f}" y="{top:.1f}" class="{kind}" text-anchor="{anchor}">{words}</text>'


def rule(kind: str, start: tuple[float, float], end: tuple[float, float]) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def axes() -> Iterator[str]:
    yield text(LEFT, 24, "Digits: accuracy over the share of rows that go to the cloud", "title")
    for step in range(6):
        share = step / 10
        yield rule("grid", (x(share), TOP), (x(share), BOTTOM))
        yield text(x(share), BOTTOM + 20, f"{share:.0%}", "quiet", "middle")
    for step in range(8):
        accuracy = ACCURACIES[0] + step * 0.005
        yield rule("grid", (LEFT, y(accuracy)), (WIDTH - RIGHT, y(accuracy)))
        yield text(LEFT - 8, y(accuracy) + 4, f"{accuracy:.3f}", "quiet", "end")


def levels(answers: Answers) -> Iterator[str]:
    """What each model is worth alone."""
    right = WIDTH - RIGHT
    for name, accuracy, offset in (
        ("cloud alone", answers.cloud_accuracy, -7),
        ("edge alone", answers.edge_accuracy, 16),
    ):
        yield rule("level", (LEFT, y(accuracy)), (right, y(accuracy)))
        yield text(right - 4, y(accuracy) + offset, f"{name} {accuracy:.3f}", "", "end")


def lines(answers: Answers) -> Iterator[str]:
    for policy in reversed(NAMES):
        places = " ".join(f"{x(each.share):.1f},{y(each.accuracy):.1f}" for each in within(curve(answers, policy)))
        yield f'<polyline class="line {policy}" points="{places}"/>'


def within(points: list[Point]) -> list[Point]:
    """The part of a curve that the picture shows, up to its right edge."""
    shown: list[Point] = []
    for each in points:
        if each.share >= SHARES[1]:
            last = shown[-1]
            part = (SHARES[1] - last.share) / (each.share - last.share)
            accuracy = last.accuracy + part * (each.accuracy - last.accuracy)
            return [*shown, Point(each.threshold, SHARES[1], accuracy)]
        shown.append(each)
    return shown


def defaults(answers: Answers) -> Iterator[str]:
    """A dot where each policy's default threshold is."""
    for policy, threshold in DEFAULTS.items():
        given = point(answers, policy, threshold)
        yield f'<circle class="default {policy}" cx="{x(given.share):.1f}" cy="{y(given.accuracy):.1f}" r="5"/>'


def legend(answers: Answers) -> Iterator[str]:
    left, top = x(0.215), y(0.9828)
    yield text(left, top, f"{len(answers.digits)} digits that no training has seen", "quiet")
    for row, (policy, name) in enumerate(NAMES.items(), 1):
        height = top + 21 * row
        yield rule(f"line {policy}", (left, height - 4), (left + 26, height - 4))
        default = f", {DEFAULTS[policy]:g} by default (dot)" if policy in DEFAULTS else ""
        yield text(left + 34, height, name + default)
    yield text(
        (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 22, "share of rows that the edge model was not sure of", "", "middle"
    )
