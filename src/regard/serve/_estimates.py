"""How long what waits will take, from what was measured.

A step of a decoder for n texts takes a + b n seconds, by the line through the last steps: b is what
a step of one text costs the others. A text takes as many steps as those before it did. What is
answered a batch at a time takes this many seconds a token.
"""

__all__ = ["Pace"]

KEPT = 0.98
"""How much of what was known is kept with each step."""


class Pace:
    """Moving averages of one thread's work."""

    def __init__(self) -> None:
        self.token = 0.0005
        """Seconds a token of what is answered a batch at a time."""
        self.steps = 30.0
        """Steps of a decoder a text."""
        self._weight = self._n = self._t = self._nn = self._nt = 0.0

    def batch(self, tokens: int, seconds: float) -> None:
        """A batch was answered."""
        self.token = 0.9 * self.token + 0.1 * seconds / max(tokens, 1)

    def step(self, texts: int, seconds: float) -> None:
        """A step of a decoder was made."""
        self._weight = KEPT * self._weight + 1
        self._n = KEPT * self._n + texts
        self._t = KEPT * self._t + seconds
        self._nn = KEPT * self._nn + texts * texts
        self._nt = KEPT * self._nt + texts * seconds

    def ended(self, steps: int) -> None:
        """A text was decoded to its end."""
        self.steps = 0.95 * self.steps + 0.05 * steps

    def more(self) -> float:
        """Seconds by which one text more makes a step longer.

        Its share of the step, where all steps so far were of equally many texts.
        """
        if not self._weight:
            return 0.001
        n, t = self._n / self._weight, self._t / self._weight
        spread = self._nn / self._weight - n * n
        if spread < 0.01 * n * n:
            return t / n
        slope = (self._nt / self._weight - n * t) / spread
        return min(max(slope, 0.2 * t / n), t / n)  # other work on the machine bends the line

    def lost(self, texts: int) -> float:
        """Seconds that a text loses to `texts` others, if others take the places of those that end.

        They do while texts come as fast as they are answered. Where fewer come, it is less.
        """
        return self.steps * self.more() * texts
