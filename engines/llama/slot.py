"""A slot: one sequence of a context, and its tokens still to decode."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgeserve.dataclass import dataclass
from edgeserve.engines.llama.adapters import Active
from edgeserve.engines.llama.drafts import Guess
from edgeserve.engines.llama.state_index import client_of, scope_of, shared
from edgeserve.errors import EdgeserveError


class Slot:
    """One sequence of a context.

    sequence   its number in the context
    busy       an answer uses it
    used       count that is higher the later an answer took it
    salt       of its client; only prompts of the same scope may share a prefix with it
    adapters   those that its answer uses
    stepped    number of the latest call that decoded tokens of it
    tokens     tokens in the KV cache, at the positions from 0
    pending    tokens still to decode
    guess      tokens that may come after the pending one; the next call may draft some
    draft      tokens in the KV cache beyond ``tokens`` and ``position``, until the answer settles which to keep
    output     index of the logits after the last token, and those after each token of the draft follow; None while
               tokens are pending
    position   the next position
    cells      cells of the KV cache that it takes, those of its draft too
    drafted    tokens that were drafted so far; ``accepted``: those of them that answers kept
    job        work that the next step does first, such as decoding a picture
    error      error of the job
    whole      cells of the text to embed or the prompt with pictures that it reads, and can read anew; 0 before there
               was room for all of them, and once an answer has begun
    wanted     cells for which its job waits
    opaque     its cells hold pictures or texts to embed, so it has no prefix to share
    text       they hold a text to embed
    full       the context has no room for its next token
    preempted  it continues, or starts over, when another answer has ended
    behind     it waits with its cells for an older text or picture to be read
    held       its answer waits for its reader: no pending token is decoded, and others may take its cells
    paused     time since which an answer about a picture is held; None otherwise
    ahead      nobody waits for its prompt, which is read in short pieces
    alone      its tokens share no call: they, or those of another answer in an earlier call, made NaN
    """

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        self.busy = self.held = self.alone = False
        self.used = 0
        self.salt = ""
        self.adapters: Active = ()
        self.stepped = 0
        self.drafted = self.accepted = 0
        self.forget()

    def forget(self) -> None:
        """Become empty."""
        self.tokens: list[int] = []
        self.pending: list[int] = []
        self.guess: Guess | None = None
        self.draft: list[int] = []
        self.output: int | None = None
        self.position = self.cells = self.whole = self.wanted = 0
        self.paused: float | None = None
        self.job: Callable[[], None] | None = None
        self.error: EdgeserveError | None = None
        self.opaque = self.text = self.full = self.preempted = self.behind = self.ahead = False

    def hold(self, tokens: Sequence[int]) -> None:
        """Note that the KV cache holds exactly these tokens."""
        self.tokens, self.position, self.cells = list(tokens), len(tokens), len(tokens)

    def begin(self, draft: list[int]) -> None:
        """Note the draft of the latest call, which used up the guess."""
        if self.guess is not None:
            self.guess.drafted = len(draft)
        self.draft, self.guess = draft, None

    @property
    def reusable(self) -> Sequence[int]:
        """Tokens that another prompt may share."""
        return () if self.opaque else self.tokens

    @property
    def client(self) -> str:
        """The client of its salt."""
        return client_of(self.salt)

    @property
    def waiting(self) -> bool:
        """Whether the next call can decode tokens of it."""
        return bool(self.pending) and not (self.full or self.preempted or self.behind or self.held)

    @property
    def rest(self) -> int:
        """Cells that its texts or pictures will take beside the tokens of the next call."""
        return max(0, self.whole - self.cells - len(self.pending) * self.waiting)

    @property
    def reads_texts(self) -> bool:
        """Whether it is taken by texts to embed, or by pictures that are not all read: no answer is under way in it."""
        return self.opaque and (self.whole > 0 or (not self.pending and self.output is None))

    @property
    def lacks(self) -> int:
        """Cells for which it waits before it begins; 0 where it has some, and while it waits for its reader."""
        return 0 if self.cells or self.held else self.wanted or len(self.pending) * self.preempted

    @property
    def idle(self) -> bool:
        """Whether it takes cells, but no answer uses it."""
        return not self.busy and self.cells > 0

    def shared(self, tokens: Sequence[int], salt: str) -> int:
        """Length of the prefix that it shares with a prompt of this salt."""
        return shared(self.reusable, tokens) if scope_of(salt) == scope_of(self.salt) else 0


@dataclass(frozen=True, slots=True)
class Share:
    """Tokens of one slot in a call: pending ones, and then a draft."""

    slot: Slot
    tokens: list[int]
    draft: list[int]
