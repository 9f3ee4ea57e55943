"""`rearrange evaluate`: an agent through many episodes, in MuJoCo or in habitat-lab."""

from rearrange.configs.schema import EvaluateCfg
from rearrange.eval.habitat.evaluation import evaluate_settings


def run(cfg: EvaluateCfg) -> int:
    """Does the evaluation; returns the exit code."""
    evaluate_settings(cfg)
    return 0
