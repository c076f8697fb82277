"""`python -m explorer` does what the command `explorer` does."""

import sys

from explorer.cli import main

if __name__ == "__main__":
    sys.exit(main())
