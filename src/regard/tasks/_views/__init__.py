"""How each task shows what its model looked at: from a loaded model and inputs to a `View`."""
