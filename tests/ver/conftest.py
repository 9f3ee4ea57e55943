"""Makes `fake_env` and `fake_policy` importable, in the tests and in the workers they start."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "update"))  # test_learner's small world
