"""What `recipe.py` is made of: reading YAML with line numbers, finding files, checking values."""
