"""After a prediction: words aligned, placeholders put back, candidates scored, records written."""
