"""Plans a task of several skills and carries out the plan, skill by skill.

python examples/plan_and_carry_out.py [TASK] [INDEX]     such as: tidy_house 0
"""

from __future__ import annotations

import sys

import gymnasium

import rearrange
from rearrange.planner.agents.registry import make_agent


def main(task: str = "rearrange_easy", index: int = 0) -> list[tuple[str, bool]]:
    """The skills that were tried, and whether each worked."""
    print(f"the plan for episode {index} of {task}:")
    for step in rearrange.plan(task=task, index=index).steps:
        print(f"  {step}")

    # The oracle reads the simulator's state; "tp_srl" carries the plan out with trained skills.
    title = "".join(part.title() for part in task.split("_"))
    env = gymnasium.make(f"rearrange/{title}-v0", split="val", depth=False)
    agent = make_agent("oracle", env)
    observation, info = env.reset(options={"index": index})
    agent.reset(observation, info)
    is_over, num_told = False, 0
    while not is_over:
        observation, _, terminated, truncated, info = env.step(agent.act(observation, info))
        is_over = terminated or truncated
        for name, has_worked in agent.attempts[num_told:]:
            print(f"{name}: {'done' if has_worked else 'failed'}")
        num_told = len(agent.attempts)
    print("success" if info["success"] else info["failure"])
    env.close()
    return agent.attempts


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(arguments[0] if arguments else "rearrange_easy", int(arguments[1]) if arguments[1:] else 0)
