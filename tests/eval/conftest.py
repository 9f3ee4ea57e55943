"""Makes `fake_world` importable, in the tests and in the worker processes they start."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
