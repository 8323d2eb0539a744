"""Annotated texts: documents with mentions, tag schemes, trees, predicates."""
