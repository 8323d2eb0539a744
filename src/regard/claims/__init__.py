"""What the surveys of attention claim, each with a test, a rule of decision and a verdict.

`lists/` has every claim with its rule, `experiments/` the measurements, `results` what they gave.
Nothing here loads PyTorch before an experiment runs.
"""
