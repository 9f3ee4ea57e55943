"""The verbs of the console: what each does, where its work is, examples and what help adds."""

from rearrange.commands.help import Verb

VERBS: dict[str, Verb] = {
    "evaluate": Verb(
        "rearrange.commands.results.evaluate",
        "run an agent through many episodes: metrics, report, videos",
        (
            "evaluate task=tidy_house agent=tp_srl split=val num_episodes=4 record=2",
            "evaluate task=set_table agent=oracle num_episodes=100",
            "evaluate task=pick num_episodes=200 num_workers=2 output_dir=outputs/pick",
            "evaluate task=tidy_house agent=tp_srl skills=runs oracle_skills=navigate,place",
            "evaluate task=set_table num_episodes=1000 scheme=ray address=head:6379",
            "evaluate run=runs/CartPole-v1-ver-0 num_episodes=100",
        ),
        "Writes summary.json, episodes.jsonl (a line an episode), report.html and stages.png into\n"
        "output_dir, and prints a table. 95% intervals: Wilson's, wider where the\n"
        "apartments differ. Episodes are kept as they end, and the same command goes on after\n"
        "Ctrl-C or a kill; results of other settings need another output_dir.",
    ),
    "record": Verb(
        "rearrange.commands.record",
        "make a video of one episode",
        (
            "record task=set_table index=3 output=outputs/set_table.mp4",
            "record run=runs/CartPole-v1-ver-0 output=outputs/cartpole.mp4",
        ),
        "The video shows the robot, its head camera's depth image, a map, and the running plan.\n"
        "Other environments paint themselves.",
    ),
    "view": Verb(
        "rearrange.commands.view",
        "play, watch and look into episodes in a browser",
        (
            "view task=pick index=0",
            "view task=tidy_house agent=oracle port=8080",
            "view task=pick split=train output=outputs/demonstrations/mine",
            "view run=outputs/evaluate/tidy_house-tp_srl-val",
        ),
        "The page shows what to do and the keys: W A S D drive, the arrows, R and F move\n"
        "the hand, space is suction, K keeps the drive as a demonstration. Agents can take\n"
        "over and hand back. It is served on this machine only. To see it elsewhere:\n"
        "ssh -L 8000:localhost:8000 HOST.",
    ),
    "collect": Verb(
        "rearrange.commands.collect",
        "make a data set of demonstrations: LeRobot, Minari or HDF5",
        (
            "collect task=pick agent=oracle num_episodes=200",
            "collect task=tidy_house format=minari num_episodes=20 output=outputs/tidy-v0",
            "collect task=place agent=teacher format=hdf5 num_workers=2",
        ),
        "Needs pip install 'rearrange[collect]'. Depth, proprioception, actions, rewards, and the\n"
        "step of the plan in words at every frame; how each episode ended. Episodes are kept as\n"
        "they end, and the same command goes on after Ctrl-C or a kill.",
    ),
    "collect verify": Verb(
        "rearrange.commands.collect",
        "play a data set's actions back and compare every bit",
        ("collect verify folder=outputs/demonstrations/pick-oracle-train-lerobot-v0",),
        "Exit code 1 if the result differs from the stored data.",
    ),
    "plan": Verb(
        "rearrange.commands.plan",
        "print the plan for an episode or for PDDL files",
        (
            "plan task=set_table index=3",
            "plan domain=my_domain.pddl problem=my_problem.pddl",
            "plan domain=my_domain.pddl problem=my_problem.pddl search=optimal timeout_s=60",
        ),
        "search=auto looks for a shortest plan if the problem is small, else for any; the last\n"
        "line of the output says whether the plan is known to be shortest.",
    ),
    "episodes": Verb(
        "rearrange.commands.episodes",
        "generate or check episode files",
        (
            "episodes generate task=tidy_house split=val num_episodes=100 output=tidy.json.gz",
            "episodes check file=tidy.json.gz",
        ),
    ),
    "homes": Verb(
        "rearrange.commands.homes",
        "check, draw or write homes",
        (
            "homes check homes=my_flat.json",
            "homes draw homes=procedural split=test num_homes=100 output=outputs/homes.html",
            "homes measure homes=procedural split=test",
            "homes generate split=train index=3 output=my_flat.json",
        ),
        "A home of your own is a JSON file, described in examples/README.md. evaluate,\n"
        "record, view and episodes take it as homes=FILE.json, training as\n"
        "env_kwargs.homes=FILE.json.",
    ),
    "export-homes": Verb(
        "rearrange.commands.exchange.export_homes",
        "write homes, robot and episodes as Habitat's data set",
        (
            "export-homes format=habitat output=outputs/habitat split=val",
            "export-homes output=outputs/habitat split=val tasks=pick,place num_episodes=10",
        ),
        "Needs no Habitat. habitat-lab finds everything under its own paths when it is started in\n"
        "the folder: docs/how_to/use_habitat.md.",
    ),
    "import-episodes": Verb(
        "rearrange.commands.exchange.import_episodes",
        "read Habitat's episode files, and report what has no counterpart",
        (
            "import-episodes file=tidy_house_10k_1k.json.gz",
            "import-episodes file=rearrange_easy.json.gz output=outputs/theirs.json.gz",
        ),
        "Homes, objects, receptacles, joints and tasks are matched by name. Exported episodes\n"
        "come back exactly; for others, places are drawn anew in the home of the same name.\n"
        "Exit code 1 if no episode has a counterpart.",
    ),
    "passport": Verb(
        "rearrange.commands.exchange.passport",
        "the same skills and episodes in MuJoCo and in Habitat",
        (
            "passport skills=pick num_episodes=100 habitat.python=~/envs/habitat",
            "passport habitat.python=~/envs/habitat output=outputs/passport",
        ),
        "Evaluates each skill and HAB task in both simulators and writes passport.html: success\n"
        "with paired differences, failures, agreement at reset, speeds, memory, films. Needs a\n"
        "Python with Habitat, see docs/how_to/use_habitat.md.",
    ),
    "train-skill": Verb(
        "rearrange.commands.training.train",
        "teach the robot a skill of the home",
        (
            "train-skill pick run_dir=runs/pick total_steps=5000000",
            "train-skill pick policy=paper num_envs=16 seed=1",
            "train-skill open_fridge scheme=serial num_envs=4 ppo.learning_rate=3e-4",
            "train-skill pick scheme=ranks scheme.world_size=8",
            "train-skill pick stage=cells preset=laptop",
        ),
        "The learning settings are the VER paper's. Writes config.yaml, metrics.jsonl,\n"
        "summary.json, checkpoints/ and tensorboard/ into run_dir. Ctrl-C and SIGTERM save; the\n"
        "same command with resume=auto continues. The command `train-skill` is the same.",
    ),
    "train-skills": Verb(
        "rearrange.commands.skills.train_skills",
        "train skills from nothing, all stages of each, and report",
        (
            "train-skills",
            "train-skills skills=pick,place evaluate_episodes=200",
            "train-skills preset=paper skills=pick scheme=ranks scheme.world_size=8",
            "train-skills jobs=2 max_hours=8 output=runs/mine",
        ),
        "The stages are in configs/skill/NAME.yaml. Prints the expected hours, trains the stages\n"
        "one after another (Ctrl-C saves, the same command continues), and writes\n"
        "NAME.safetensors for each skill and report.html. All other overrides are settings of\n"
        "each stage's training, see `rearrange train-skill --help`; `train-skill NAME\n"
        "stage=STAGE` is one stage alone. Exit code 1 if a stage failed.",
    ),
    "train": Verb(
        "rearrange.commands.training.train",
        "train in any Gymnasium environment",
        (
            "train env=CartPole-v1 total_steps=100000",
            "train env=HalfCheetah-v5 mode=ver num_envs=16 policy=mlp returns.gamma=0.99",
            "train env=my_package.my_module:MyEnv-v0 env_kwargs.size=3",
        ),
        "Settings that depend on the environment (the policy, some of ppo, returns and entropy)\n"
        "default to values for its spaces; run_dir/config.yaml records them. Ctrl-C\n"
        "and SIGTERM save; the same command with resume=auto continues.",
    ),
    "launch": Verb(
        "rearrange.commands.training.launch",
        "train many skills and seeds over a Ray cluster",
        (
            "launch skills=pick,place seeds=0,1,2 run_root=runs/all total_steps=5000000",
            "launch envs=CartPole-v1 seeds=0,1,2,3 scheme.num_cpus=2 num_envs=8",
            "launch skills=pick policy=paper scheme.world_size=8 scheme.num_gpus=1",
        ),
        "All other overrides are settings of each training, see `rearrange train-skill --help`;\n"
        "those of scheme say how many ranks it has and what a rank needs. Each training resumes\n"
        "from its folder, also after a lost machine. Ctrl-C saves them all.\n"
        "Exit code 1 if one of them failed.",
    ),
    "export-skill": Verb(
        "rearrange.commands.training.export",
        "write the policy of a training run into one small file",
        (
            "export-skill run=runs/pick output=skills_of_mine/pick.safetensors",
            "export-skill run=runs/pick format=onnx output=pick.onnx",
        ),
        "Skill files have weights in half precision; `evaluate agent=tp_srl skills=DIR` finds\n"
        "them. ONNX models (the extra `onnx`) act without noise; the memory is among\n"
        "their inputs and outputs.",
    ),
    "plot": Verb(
        "rearrange.commands.results.plot",
        "draw learning curves of training runs",
        (
            "plot runs/pick-ver-0 runs/pick-ver-1 output=outputs/pick.png",
            "plot runs/a metrics=episode/return,loss/value x=time",
        ),
        "Runs of the same environment and mode make one curve: the mean over their seeds with its\n"
        "95% interval by Student's t, from three runs on.",
    ),
    "compare": Verb(
        "rearrange.commands.results.compare",
        "set evaluations of the same episodes side by side, paired",
        (
            "compare outputs/before outputs/after",
            "compare outputs/before outputs/after output=outputs/compared.json",
        ),
        "Takes the output_dir of each evaluation. Says which episodes changed, by how many points\n"
        "success differs with its 95% interval, and whether chance would do as much.",
    ),
    "bench": Verb(
        "rearrange.eval.benchmarks.homes.bench_sim",
        "measure physics, depth, env.step, reset and memory",
        ("bench sim", "bench sim output=outputs/bench.json num_steps=2000"),
        "Every time is compared with one mj_multiRay image of the same scene and run.\n"
        "Exit code 1 if a threshold is missed.",
    ),
    "bench homes": Verb(
        "rearrange.eval.benchmarks.homes.bench_homes",
        "measure many homes in one process beside single ones",
        ("bench homes", "bench homes num_envs=64 threads=1,2,4 output=outputs/homes.json"),
        "Compares every array with those of single homes, then speed with Gymnasium's own vector\n"
        "environments, memory, and what resets cost. Exit code 1 if a threshold is missed.",
    ),
    "bench trainers": Verb(
        "rearrange.eval.benchmarks.trainers.bench_trainers",
        "measure the trainer's modes, and other trainers, in one run",
        (
            "bench trainers output=outputs/trainers.json",
            "bench trainers workloads=straggler modes=ver,ddppo peers=none",
        ),
    ),
    "bench scaling": Verb(
        "rearrange.eval.benchmarks.scaling.bench_scaling",
        "measure how training scales with ranks, and simulate more",
        (
            "bench scaling output=outputs/scaling.json keep_dir=outputs/scaling",
            "bench scaling ranks=1,2,4 ways=ver,ddppo num_rollouts=4 simulated_ranks=64",
        ),
        "Ranks are processes of this machine; their environments sleep. The simulation is\n"
        "calibrated on the measurements. Exit code 1 if a threshold is missed.",
    ),
    "bench bridge": Verb(
        "rearrange.eval.benchmarks.trainers.bench_bridge",
        "measure workers of another Python beside our own",
        ("bench bridge python=~/envs/old", "bench bridge num_kills=1000"),
        "Exit code 1 if a threshold is missed or killed workers leave something behind.",
    ),
    "bench staggered-resets": Verb(
        "rearrange.eval.benchmarks.staggered.bench_staggered",
        "measure the effect of staggered resets, on the toy task of their paper",
        (
            "bench staggered-resets output=outputs/staggered.json keep_dir=outputs/staggered",
            "bench staggered-resets seeds=1 horizons=50,200 sweep_seeds=1 num_updates=80",
        ),
        "Trains 140 times, half of them with synchronous resets: some 15 minutes of one core.\n"
        "Exit code 1 if a threshold is missed.",
    ),
    "chaos": Verb(
        "rearrange.commands.chaos",
        "break training in many ways and report what happened",
        (
            "chaos quick=true",
            "chaos output=outputs/chaos.json",
            "chaos pairs=200",
            "chaos soak_minutes=120 soak_kills=1",
        ),
        "Exit code 1 if something did not end as it should.",
    ),
    "doctor": Verb(
        "rearrange.commands.doctor",
        "report what this machine has, and what to fix",
        ("doctor", "doctor output=outputs/doctor.json", "doctor python=~/envs/old"),
        "Exit code 1 if something has to be fixed.",
    ),
    "list": Verb(
        "rearrange.commands.listing",
        "list the tasks, agents, splits and renderers",
        ("list", "list tasks"),
    ),
}
