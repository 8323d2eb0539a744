"""Sequences from sequences, images, sounds and video."""
