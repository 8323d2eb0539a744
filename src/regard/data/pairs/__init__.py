"""Features of a pair of texts or concepts."""
