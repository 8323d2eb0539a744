"""Following a model, ours or not, and making views of what it attended to."""
