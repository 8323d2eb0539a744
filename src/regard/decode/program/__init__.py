"""Fast forms of a model's `step`, and the choice between them."""
