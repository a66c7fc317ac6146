"""Experience replay: reuse the samples of a block in an order that reduces correlation."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.base.draws import REPLAY, Key, below, key
from mixfree.base.state import State


@dataclass(slots=True)
class ReplayState(State):
    """Number of samples, the block that is being filled or replayed, and the replay's turn."""

    samples: int = 0
    block: list[Any] = field(default_factory=list)
    turn: int = 0

    def check(self, what: str) -> None:
        """A block is made of samples that were seen."""
        if (held := len(self.block)) > self.samples:
            raise ValueError(
                f"state of the {what} does not fit: {held} of {self.samples} samples in the block"
            )


@dataclass(frozen=True)
class Replay(ABC):
    """Blocks of ``buffer + gap`` samples; when one is full, ``buffer`` steps are taken from it.

    Requires the samples: ``for z in opt.offer(sample): opt.tell(grad(opt.x, z))``.

    Parameters
    ----------
    mixing_time
        Determines the defaults of ``buffer`` and ``gap``.
    buffer
        Samples replayed per block; 10 mixing times by default.
    gap
        Samples at the start of a block that are not replayed.
    seed
        Seed of a random order of replay.
    """

    mixing_time: int
    buffer: int | None = None
    gap: int | None = None
    seed: int = 0
    key: Key = field(init=False, repr=False, compare=False)

    default_gap: ClassVar[int] = 0

    def __post_init__(self) -> None:
        check_whole(self.mixing_time, "mixing_time")
        buffer = 10 * self.mixing_time if self.buffer is None else self.buffer
        object.__setattr__(self, "buffer", check_whole(buffer, "buffer", most=2**31))
        if self.gap is None:
            object.__setattr__(self, "gap", self.default_gap * self.mixing_time)
        check_whole(self.gap, "gap", least=0)
        object.__setattr__(self, "key", key(self.seed, REPLAY))

    @abstractmethod
    def position(self, block: int, turn: int) -> int:
        """Index in the block (oldest first) of the sample replayed at this turn (from 0)."""

    def start(self, x0: Array) -> ReplayState:
        """State of a run that has seen nothing."""
        return ReplayState()

    def offer(self, state: ReplayState, sample: Any) -> Iterator[Any]:
        """Keep the sample; once the block is full, yield its samples in the order of replay."""
        if len(state.block) == self.block_size:
            raise RuntimeError("the last block's replay is not finished: tell its gradients first")
        state.block.append(deepcopy(sample))
        state.samples += 1
        return self.due(state)

    def due(self, state: ReplayState) -> Iterator[Any]:
        """The samples still to be replayed."""
        while len(state.block) == self.block_size:
            turn = state.turn
            yield state.block[self._position(state)]
            if state.turn == turn and len(state.block) == self.block_size:
                raise RuntimeError("a replayed sample's gradient was not told")

    def add(self, state: ReplayState, gradient: Array, steps: int) -> Array | None:
        """Return every replayed gradient as a direction."""
        if len(state.block) < self.block_size:
            raise RuntimeError(
                "this method replays samples: use 'for z in opt.offer(sample): "
                "opt.tell(grad(opt.x, z))'"
            )
        state.turn += 1
        if state.turn == self.buffer:
            state.turn = 0
            state.block = []
        return gradient

    def iterate(self, state: ReplayState, before: Array, after: Array) -> Array | None:
        """The output uses the points at the ends of blocks."""
        return after if state.turn == 0 else None

    def pending(self, state: ReplayState) -> int:
        """Samples in the block that is not replayed yet."""
        return len(state.block)

    def number(self, state: ReplayState) -> int:
        """Position of the sample to be replayed next, or else of the next sample."""
        if len(state.block) < self.block_size:
            return state.samples + 1
        return state.samples - self.block_size + self._position(state) + 1

    def _position(self, state: ReplayState) -> int:
        return self.position(state.samples // self.block_size, state.turn)

    @property
    def block_size(self) -> int:
        """Samples per block."""
        return int(self.buffer or 0) + int(self.gap or 0)


@dataclass(frozen=True)
class ForwardReplay(Replay):
    """SGD-ER (Nagaraj et al. 2020): uniform draws with replacement inside each block."""

    def position(self, block: int, turn: int) -> int:
        """Drawn anew for every step."""
        buffer = int(self.buffer or 0)
        return int(self.gap or 0) + below(self.key, block * buffer + turn, buffer)


@dataclass(frozen=True)
class ReverseReplay(Replay):
    """SGD-RER (Jain et al. 2021): from the newest sample to the oldest, without the gap."""

    default_gap: ClassVar[int] = 1

    def position(self, block: int, turn: int) -> int:
        """Newest first."""
        return self.block_size - 1 - turn
