"""What models are made of beside attention."""
