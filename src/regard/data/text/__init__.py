"""Text: tokenizers, vocabularies, words and their forms."""
