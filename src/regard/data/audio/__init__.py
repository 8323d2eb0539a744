"""Sound: decoding and log-mel spectrograms."""
