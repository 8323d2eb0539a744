"""Model folders: written whole, read strictly."""
