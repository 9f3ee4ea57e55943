"""GuideCfg: how policy and teacher share an episode. Separate, so that settings import neither."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(kw_only=True)
class GuideCfg:
    """How policy and teacher share an episode. The lengths of turns are log-uniform."""

    policy_turn: list[int] = field(default_factory=lambda: [4, 60])
    """Shortest and longest turn of the policy (control steps)."""
    teacher_turn: list[int] = field(default_factory=lambda: [20, 120])
    """Shortest and longest turn of the teacher (control steps)."""
    watch_every: int = 8
    """In one of this many environments the policy acts alone; its success is reported."""
    stop_weight: float = 2.0
    """Weight of the rare labels that call stop. If it is much larger, stop is called too early."""
    release_weight: float = 12.0
    """Weight of the labels that release: one step per episode."""
    retreat_weight: float = 1.0
    """Weight of the labels that begin to back off: where the student cannot tell whether it is
    caught, more than 1 makes it back off once too often rather than stand there for good."""
    alone_steps: int = 2500
    """First steps of an environment, in which only the teacher acts: an untrained policy would drop
    what it holds at once."""
    time_factor: float = 1.5
    """Factor on the task's time limit: shared episodes take longer."""

    def __post_init__(self) -> None:
        for name in ("policy_turn", "teacher_turn"):
            turn = getattr(self, name)
            if len(turn) != 2 or not 1 <= turn[0] <= turn[1]:
                raise ValueError(f"{name} must be two increasing numbers from 1, got {turn}")
        if self.watch_every < 2:
            raise ValueError(f"watch_every must be at least 2, got {self.watch_every}")
        for name in ("stop_weight", "release_weight", "retreat_weight", "alone_steps"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.time_factor < 1.0:
            raise ValueError(f"time_factor must be at least 1, got {self.time_factor}")
