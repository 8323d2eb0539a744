"""Relations between concepts of a document."""
