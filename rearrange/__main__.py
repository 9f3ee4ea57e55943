"""`python -m rearrange` is the command `rearrange`."""

import sys

from rearrange.cli import main

if __name__ == "__main__":
    sys.exit(main())
