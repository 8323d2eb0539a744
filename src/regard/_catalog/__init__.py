"""The rows of the catalogue, and what a row is. Nothing heavy is imported here."""
