"""Which class of settings belongs to which verb of the command line."""

from __future__ import annotations

from rearrange.configs.benches import (
    BenchBridgeCfg,
    BenchCfg,
    BenchHomesCfg,
    BenchScalingCfg,
    BenchStaggeredCfg,
    BenchTrainersCfg,
    ChaosCfg,
    DoctorCfg,
)
from rearrange.configs.collecting import CollectCfg, VerifyCfg
from rearrange.configs.exchange import ExportHomesCfg, ImportEpisodesCfg, PassportCfg
from rearrange.configs.schema import (
    CompareCfg,
    EpisodesCfg,
    EvaluateCfg,
    ExportSkillCfg,
    HomesCfg,
    LaunchCfg,
    ListCfg,
    PlanCfg,
    PlotCfg,
    RecordCfg,
    TrainSkillsCfg,
)
from rearrange.configs.viewing import ViewCfg

TRAINING_VERBS = ("train", "train-skill")  # their settings' owners import torch

_CONFIGS: dict[str, type] = {
    "evaluate": EvaluateCfg,
    "record": RecordCfg,
    "view": ViewCfg,
    "collect": CollectCfg,
    "collect verify": VerifyCfg,
    "plan": PlanCfg,
    "episodes": EpisodesCfg,
    "homes": HomesCfg,
    "export-homes": ExportHomesCfg,
    "import-episodes": ImportEpisodesCfg,
    "passport": PassportCfg,
    "export-skill": ExportSkillCfg,
    "train-skills": TrainSkillsCfg,
    "launch": LaunchCfg,
    "plot": PlotCfg,
    "compare": CompareCfg,
    "bench": BenchCfg,
    "bench homes": BenchHomesCfg,
    "bench trainers": BenchTrainersCfg,
    "bench scaling": BenchScalingCfg,
    "bench bridge": BenchBridgeCfg,
    "bench staggered-resets": BenchStaggeredCfg,
    "chaos": ChaosCfg,
    "doctor": DoctorCfg,
    "list": ListCfg,
}
VERBS: tuple[str, ...] = (*_CONFIGS, *TRAINING_VERBS)


def config_class(verb: str) -> type:
    """The settings of a verb; the first call for one of `TRAINING_VERBS` imports torch."""
    if verb in TRAINING_VERBS:
        from rearrange.configs import training

        return training.TrainCfg if verb == "train" else training.TrainSkillCfg
    return _CONFIGS[verb]
