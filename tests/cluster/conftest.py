"""Makes the fake worlds of the evaluation's tests importable, here and in Ray's workers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "eval"))
