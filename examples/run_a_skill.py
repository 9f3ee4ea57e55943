"""Runs a trained skill in its own environment.

python examples/run_a_skill.py [SKILL] [EPISODES]        such as: pick 3
"""

from __future__ import annotations

import sys

import rearrange


def main(name: str = "pick", num_episodes: int = 3) -> list[bool]:
    """Whether each episode was a success."""
    skill = rearrange.load_skill(name)  # or a skill file, or the folder of a training
    env = skill.make_env(split="val")
    successes = []
    for index in range(num_episodes):
        observation, info = env.reset(options={"index": index})
        skill.reset()
        is_over, num_steps = False, 0
        while not is_over:
            observation, _, terminated, truncated, info = env.step(skill.act(observation))
            is_over, num_steps = terminated or truncated, num_steps + 1
        print(f"episode {index}: {info['failure'] or 'success'} after {num_steps} steps")
        successes.append(bool(info["success"]))
    env.close()
    return successes


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(arguments[0] if arguments else "pick", int(arguments[1]) if arguments[1:] else 3)
