"""What a decoder may not write, must write, or may copy."""
