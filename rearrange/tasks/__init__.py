"""Tasks in the home: episodes, observations, rewards, and Gymnasium environments.

`import rearrange.tasks` is enough for `gymnasium.make("rearrange/Pick-v0")`.
"""

from rearrange.tasks.registry import register_all

register_all()
