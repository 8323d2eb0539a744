"""`python -m regard` is the `regard` command."""

import sys

from regard.cli.app import main

sys.exit(main())
