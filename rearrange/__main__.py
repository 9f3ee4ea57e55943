"""`python -m rearrange` is the command `rearrange`."""

import sys

try:
    from rearrange.cli import main
except KeyboardInterrupt:  # before there is anything to save
    print("error: interrupted", file=sys.stderr)
    sys.exit(130)

if __name__ == "__main__":
    sys.exit(main())
