"""`.seen` files: views on disk."""
