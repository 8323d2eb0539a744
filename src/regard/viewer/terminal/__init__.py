"""Drawing in a terminal."""
