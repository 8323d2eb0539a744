"""Data sets that are larger than memory: stored on disk, or streamed from many files."""
