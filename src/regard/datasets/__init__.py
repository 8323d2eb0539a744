"""From a recipe's `data:` section to splits of examples."""
