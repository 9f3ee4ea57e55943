"""Run by Habitat's Python in an exported folder: random actions in habitat-lab's own environments.

    python stock_random.py HabitatPick-v0 NUM_EPISODES NUM_STEPS SCALE [override ...]

SCALE is of the actions: 0 lets the world settle, with habitat.simulator.auto_sleep=False.

A line of JSON for each episode: steps, how far each object that the robot did not hold has moved,
how deep the lowest lies. Steps go on over an episode's end, in the same world, up to NUM_STEPS.
"""

import json
import sys
import time
import warnings

import numpy as np

warnings.filterwarnings("ignore")
SEED = 0
FLOOR = -0.05  # m; what lies lower has fallen through


def positions(sim):
    return np.array(sim.get_scene_pos(), dtype=np.float64)


def main(env_id, num_episodes, num_steps, scale, overrides):
    import gym
    import habitat.gym  # noqa: F401, registers the ids

    env = gym.make(
        env_id,
        override_options=[
            "habitat.simulator.habitat_sim_v0.gpu_device_id=-1",
            "habitat.dataset.split=val",
            "habitat.environment.iterator_options.shuffle=False",
            f"habitat.seed={SEED}",
            *overrides,
        ],
    )
    core = env.unwrapped
    while not hasattr(core, "habitat_env"):
        core = getattr(core, "_env", None) or core.env
    core = core.habitat_env
    rng = np.random.default_rng(SEED)
    for number in range(num_episodes):
        core.current_episode = core.episodes[number]
        began = time.perf_counter()
        env.reset()
        reset_s = time.perf_counter() - began
        sim, held = core.sim, set()
        before, began = positions(sim), time.perf_counter()
        lowest, largest = np.inf, np.zeros(len(before))
        for _ in range(num_steps):
            # the episode's own end is of no interest here
            core._episode_over = False
            core.task.should_end = False
            action = scale * rng.uniform(-1.0, 1.0, env.action_space.shape)
            env.step(action.astype(np.float32))
            if sim.grasp_mgr.snap_idx is not None:
                held.add(sim.scene_obj_ids.index(sim.grasp_mgr.snap_idx))
            now = positions(sim)
            if not np.isfinite(now).all():
                raise RuntimeError(f"episode {number}: a position is not finite")
            lowest = min(lowest, float(now[:, 1].min()))
            largest = np.maximum(largest, np.linalg.norm(now - before, axis=1))
        moved = [float(d) for i, d in enumerate(largest) if i not in held]
        told = {
            "episode": number, "steps": num_steps, "objects": len(before), "held": len(held),
            "moved_over_10cm": sum(d > 0.1 for d in moved), "largest": max(moved, default=0.0),
            "lowest": lowest, "fallen": int((positions(sim)[:, 1] < FLOOR).sum()),
            "reset_s": reset_s, "steps_s": time.perf_counter() - began,
        }  # fmt: skip
        print("RESULT", json.dumps(told), flush=True)
    env.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), sys.argv[5:])
