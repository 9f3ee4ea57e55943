"""What the camera has seen around the robot in this episode: the sensor `seen_scan` from pictures.

    picture ------> points around the base, nearest of each direction --+
    points before -> moved as the base has moved ----------------------+--> points --> nearness
                          |
    target before and now, previous action: how the base has moved

The camera sees 90 degrees ahead; the robot turns and backs into what it has driven past. The
numbers are those of `sim/robot/seen.py`, made of HAB's sensors: a base on wheels moves along a line
or an arc, so how it has moved follows from where its target was and is. Where that leaves it open,
the target being right beside it, it has moved as it was told.

B: steps   E: environments   Q: sequences   N: pixels used   P: directions of both bands
"""

from __future__ import annotations

import math
from itertools import accumulate

import torch
from torch import Tensor, nn

from rearrange.sim.robot import fetch
from rearrange.sim.robot.seen import ARM, BINS, FARTHEST, HIGH, LOW, TOP, UNSEEN
from rearrange.skills.network.base_frame import hand_frame_vectors, in_base_frame
from rearrange.skills.skill import ACTION_SIZE, BASE
from rearrange.tasks.ranges import MAX_RANGE

PICTURE = "head_depth"
COMPASS = "goal_to_agent_gps_compass"
IN_HAND = ("obj_goal_sensor", "obj_start_sensor")  # things that stand still
REST = "relative_resting_position"  # tells where the hand is
ROWS, COLUMNS = 32, 32  # of pixels used
DIRECTIONS = 2 * BINS
OPEN = 1e-4  # m2: a target less than a centimetre ahead or behind tells nothing of the way driven
ROUNDS = 2  # of solving for way and turn, which depend on each other
STEPS_PER_SECOND = 30.0


class SeenScan(nn.Module):
    """No weights. `state_size` numbers of state: the points, and the target."""

    rays: Tensor  # [N, 3] in the base's frame, of depth 1
    state_size = 2 * DIRECTIONS + 2

    def __init__(self, shapes: dict[str, tuple[int, ...]], num_actions: int) -> None:
        super().__init__()
        in_hand = hand_frame_vectors(shapes) if REST in shapes else []
        targets = [name for name in IN_HAND if name in in_hand]
        self.in_hand = None if COMPASS in shapes or not targets else targets[0]
        has_target = COMPASS in shapes or bool(targets)
        if not has_target or len(shapes.get(PICTURE, ())) != 3 or num_actions != ACTION_SIZE:
            raise ValueError(
                f"seen_scan needs {PICTURE}, {COMPASS} or {' or '.join(IN_HAND)}, and the "
                f"{ACTION_SIZE} numbers of the full action, got {', '.join(sorted(shapes))} and "
                f"{num_actions} numbers"
            )
        height, width = shapes[PICTURE][:2]
        self.steps = max(1, height // ROWS), max(1, width // COLUMNS)
        rays = torch.tensor(_rays(height, width, self.steps), dtype=torch.float32)
        self.register_buffer("rays", rays, persistent=False)

    def step(
        self, observation: dict[str, Tensor], prev_action: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Of each environment: [E, P] nearness and the state [E, K] after; 0 at the start."""
        with torch.no_grad():
            target, command = self._where(observation), prev_action[:, BASE].float()
            points = self._after(state, target, command, self._fresh(observation[PICTURE]))
            return _nearness(points), torch.cat([points.flatten(1), target], dim=1)

    def sequences(
        self, observation: dict[str, Tensor], prev_action: Tensor, batch_sizes: list[int],
        start: Tensor,
    ) -> Tensor:  # fmt: skip
        """Of packed steps: [B, P] nearness from the state [Q, K] before the first ones."""
        with torch.no_grad():
            targets, commands = self._where(observation), prev_action[:, BASE].float()
            fresh = self._fresh(observation[PICTURE])
            state, found = start, []
            for end, n in zip(accumulate(batch_sizes), batch_sizes, strict=True):
                rows = slice(end - n, end)
                points = self._after(state[:n], targets[rows], commands[rows], fresh[rows])
                state = torch.cat([points.flatten(1), targets[rows]], dim=1)
                found.append(points)
            return _nearness(torch.cat(found))

    def _where(self, observation: dict[str, Tensor]) -> Tensor:
        """The target in the base's frame, [B, 2] m."""
        if self.in_hand is None:
            distance, right = observation[COMPASS].float().unbind(-1)
            return torch.stack([distance * right.cos(), -distance * right.sin()], dim=-1)
        from_hand = in_base_frame(observation, [self.in_hand])[:, :2]
        hand_to_rest = observation[REST][:, :2].float()
        return from_hand - hand_to_rest + from_hand.new_tensor(fetch.EE_REST_B[:2])

    def _after(self, state: Tensor, target: Tensor, command: Tensor, fresh: Tensor) -> Tensor:
        """The points after a step, [n, P, 2]."""
        points, before = state[:, :-2].unflatten(1, (DIRECTIONS, 2)), state[:, -2:]
        moved = _moved(points, *_motion(before, target, command))
        return _nearest(torch.cat([moved, fresh], dim=1), _BANDS.to(moved.device))

    def _fresh(self, picture: Tensor) -> Tensor:
        """What a picture [B, H, W, C] shows, [B, P, 2] m in the base's frame; 0: nothing."""
        depth = picture[:, :: self.steps[0], :: self.steps[1], 0].flatten(1)
        if depth.dtype == torch.uint8:
            depth = depth.float() / 255.0
        depth = MAX_RANGE * depth
        eye = self.rays.new_tensor(fetch.HEAD_CAMERA_POS_B)
        x, y, z = (depth * self.rays[:, i] + eye[i] for i in range(3))
        is_low = z < HIGH
        may_be_arm = ~is_low & (x < ARM[0]) & (y.abs() < ARM[1])
        is_taken = (depth <= FARTHEST) & (z >= LOW) & (z <= TOP) & ~may_be_arm
        flat = torch.stack([x, y], dim=-1) * is_taken.unsqueeze(-1)
        return _nearest(flat, (~is_low).long())


_BANDS = (torch.arange(2 * DIRECTIONS) // BINS) % 2
"""Of points before, then of fresh ones: 0 low, 1 high."""


def _motion(before: Tensor, now: Tensor, command: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Way [n, 2] m and turn [n] rad of the base, from where a point was and is, [n, 2] m."""
    told = command.clamp(-1.0, 1.0)
    told_way = told[:, 0] * (fetch.MAX_BASE_SPEED / STEPS_PER_SECOND)
    turn = told[:, 1] * (fetch.MAX_BASE_TURN / STEPS_PER_SECOND)
    way, nearer = told_way, (before.square() - now.square()).sum(-1)
    x, y = before.unbind(-1)
    cos = sin = turn
    for _ in range(ROUNDS):
        cos, sin = (turn / 2).cos(), (turn / 2).sin()  # an arc's chord
        along = x * cos + y * sin
        way = (along * (nearer + way.square()) / 2 + OPEN * told_way) / (along.square() + OPEN)
        after_x, after_y = x - way * cos, y - way * sin
        angle = torch.atan2(after_y, after_x) - torch.atan2(now[:, 1], now[:, 0])
        turn = torch.atan2(angle.sin(), angle.cos())
    return way * cos, way * sin, turn


def _moved(points: Tensor, way_x: Tensor, way_y: Tensor, turn: Tensor) -> Tensor:
    """Points [n, P, 2] in the frame of the base after it has moved; 0, which is none, stays."""
    x, y = points.unbind(-1)
    is_there = (x != 0.0) | (y != 0.0)
    x, y = x - way_x.unsqueeze(1), y - way_y.unsqueeze(1)
    cos, sin = turn.cos().unsqueeze(1), turn.sin().unsqueeze(1)
    moved = torch.stack([cos * x + sin * y, cos * y - sin * x], dim=-1)
    return moved * is_there.unsqueeze(-1)


def _nearest(points: Tensor, band: Tensor) -> Tensor:
    """The nearest point of each band and direction, [n, P, 2], of [n, M, 2]; 0: none.

    Args:
        band: [M] or [n, M], 0 or 1.
    """
    x, y = points.unbind(-1)
    distance = points.square().sum(-1).sqrt()  # ONNX has no hypot
    share = torch.atan2(y, x) / (2.0 * math.pi) + 0.5
    direction = (share * BINS).long().remainder(BINS)
    nowhere = torch.full_like(direction, DIRECTIONS)
    index = torch.where(distance > 0.0, band * BINS + direction, nowhere)
    nearest = distance.new_full((points.shape[0], DIRECTIONS + 1), torch.inf)
    nearest = nearest.scatter_reduce(1, index, distance, "amin")
    index = torch.where(distance <= nearest.gather(1, index), index, nowhere)
    own = torch.arange(points.shape[1], device=points.device).expand_as(index)
    which = torch.full_like(nearest, -1, dtype=torch.int64).scatter(1, index, own)[:, :-1]
    found = points.gather(1, which.clamp(min=0).unsqueeze(-1).expand(-1, -1, 2))
    return found * (which >= 0).unsqueeze(-1)


def _nearness(points: Tensor) -> Tensor:
    """(1 - d) / (1 + d) of the nearest of each direction and the two beside it, [B, P]."""
    distance = points.square().sum(-1).sqrt().unflatten(1, (2, BINS))
    distance = torch.where(distance > 0.0, distance, UNSEEN)
    beside = torch.minimum(distance.roll(1, -1), distance.roll(-1, -1))
    distance = torch.minimum(distance, beside).flatten(1)
    return (1.0 - distance) / (1.0 + distance)


def _rays(height: int, width: int, steps: tuple[int, int]) -> list[list[float]]:
    """Directions of the pixels used, row by row, [N, 3] in the base's frame; 1 along the axis."""
    ahead = fetch.HEAD_CAMERA_TARGET_B[0] - fetch.HEAD_CAMERA_POS_B[0]
    down = fetch.HEAD_CAMERA_POS_B[2] - fetch.HEAD_CAMERA_TARGET_B[2]
    cos, sin = ahead / math.hypot(ahead, down), down / math.hypot(ahead, down)
    pixel = 2.0 * math.tan(math.radians(fetch.HEAD_CAMERA_FOV_DEG) / 2.0) / height
    rays = []
    for row in range(0, height, steps[0]):
        up = (height / 2 - row - 0.5) * pixel
        for column in range(0, width, steps[1]):
            left = (width / 2 - column - 0.5) * pixel
            rays.append([cos + up * sin, left, up * cos - sin])
    return rays
