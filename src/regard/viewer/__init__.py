"""Pictures of what a model attends to: figures for papers, and a picture in the terminal."""
