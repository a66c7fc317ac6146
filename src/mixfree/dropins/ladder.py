"""What the ladders of both libraries share beside the rule."""

from mixfree.base.arithmetic import farthest_of

FARTHEST = 1e15  # largest λ whose squares can be summed in float32


def farthest(double: bool) -> float:
    """Return the scale λ beyond which a run diverges; float64 has more room than float32."""
    return farthest_of(float) if double else FARTHEST
