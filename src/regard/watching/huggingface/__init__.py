"""Folders of Hugging Face: opened, run and watched."""
