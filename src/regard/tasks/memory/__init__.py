"""Questions about stories."""
