"""What the ladders of both libraries share beside the rule."""

from mixfree.base.arithmetic import largest_of

FARTHEST = 1e15  # largest λ whose squares can be summed in float32


def farthest(double: bool) -> float:
    """Return the scale λ beyond which a run diverges; float64 has more room than float32."""
    return largest_of(float) if double else FARTHEST
