"""What a recipe is checked with: the classes that it names, and a dry build of its model."""
