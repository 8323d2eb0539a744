"""`python -m regard` is the `regard` command."""

from regard.cli.app import run

run()
