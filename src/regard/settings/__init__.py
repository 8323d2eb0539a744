"""Settings of recipes: YAML with line numbers, overlays, checks of values, old names."""
