"""Friction and mass of ours as Bullet needs them.

Of two touching surfaces MuJoCo takes the larger friction, Bullet the product of both. With the root
of ours on each the product is ours. Rolling: Bullet takes a_rolling b + b_rolling a of friction a,
b, so that the loose object alone has it.
"""

from __future__ import annotations

import math
from typing import Any

from rearrange.sim.home.objects import ObjectKind
from rearrange.sim.model import OBJECT_FRICTION, PHYSICS_DT

FRICTION = math.sqrt(OBJECT_FRICTION[0])
ROLLING = OBJECT_FRICTION[2] / FRICTION  # m, of what rolls
GRAVITY = 9.81  # m/s^2, as in our model
PHYSICS: dict[str, Any] = {
    "physics_simulator": "bullet",
    "timestep": PHYSICS_DT,
    "gravity": [0, -GRAVITY, 0],
    "friction_coefficient": FRICTION,
    "restitution_coefficient": 0.0,
}
"""Habitat's physics configuration."""


def brake_impulse(damping: float, speed: float, friction: float) -> float:
    """What a joint's friction takes in a physics step, N s or N m s, at a usual speed of it.

    Habitat reads a joint's damping so (see `urdf`).
    """
    return (friction + damping * speed) * PHYSICS_DT


def object_physics(kind: ObjectKind) -> dict[str, Any]:
    """Mass, inertia and friction of a loose object for its `object_config.json`, y up."""
    x, y, z = (float(v) for v in kind.inertia())
    physics: dict[str, Any] = {
        "mass": kind.mass,
        "COM": [0.0, 0.0, 0.0],
        "inertia": [x, z, y],
        "friction_coefficient": FRICTION,
        "restitution_coefficient": 0.0,
        "margin": 0.0,
    }
    return physics | ({"rolling_friction_coefficient": ROLLING} if kind.shape == "sphere" else {})
