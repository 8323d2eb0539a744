"""The claims by theme, each with its rule."""
