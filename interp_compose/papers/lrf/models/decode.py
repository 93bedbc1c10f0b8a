"""Greedy decoding and beam search, with a cache of keys and values.

A step computes one token of each row: keys and values of the tokens before are kept, those of the
source are computed once for all beams of it, and fuse-attention needs the states of the new token
alone. Rows that have ended leave the batch.

Where a hook or an edit is on any part of the model, none of this is done: every token comes from a
call of the whole model on all tokens so far, and no row leaves, so that interventions act exactly
as they do on a call of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.modules import module as torch_module

from interp_compose._public import public
from interp_compose.errors import InputError, OptionError
from interp_compose.models.encoder_decoder import FIRST_TARGET_POSITION, EncoderDecoderModel
from interp_compose.models.hooks import check_call, in_evaluation_mode
from interp_compose.models.parts import Attention, Joined
from interp_compose.papers.lrf.models.seq2seq import RelativeAttention, SmallSeq2Seq
from interp_compose.papers.shared.text.vocabulary import BOS, EOS

ROOM: Final = 16
"""A cache has room for a multiple of so many tokens."""
MAX_BEAMS: Final = 10_000
MAX_PENALTY: Final = 10
"""Beyond, a score over- or underflows."""


@dataclass(frozen=True)
class Hypothesis:
    """A target with its EOS, and its score: log-probability (nats) / length ** length_penalty."""

    tokens: tuple[int, ...]
    score: float


@public
def greedy_search(
    model: SmallSeq2Seq | EncoderDecoderModel,
    source: Int[Tensor, "batch source"],
    source_mask: Int[Tensor, "batch source"] | None = None,
    *,
    max_length: int | None = None,
    start: Sequence[int] | None = None,
    eos: int | None = None,
    cached: bool = True,
) -> list[list[int]]:
    """The likeliest next token, again and again, until it is EOS; of each row the tokens, EOS
    included, which is missing where ``max_length`` tokens do not hold it.

    Dropout is off. No token is ruled out: padding and BOS are a wrong answer like any other.

    Args:
        model: an encoder–decoder from :func:`.load.load_model` or :func:`.small_seq2seq`, or the
            module of such a small one.
        source: token ids, with EOS if the model was trained so.
        source_mask: 0 at padding; by default there is none.
        max_length: tokens of a target, EOS included; by default as many as the model has positions
            for.
        start: ids of the tokens before the first; by default the model's ``start_ids``.
        eos: id of the token after the last; small models have one.
        cached: whether to keep keys and values. They are kept in small models without hooks and
            edits alone.

    Raises:
        OptionError: a ``max_length`` that the model has no positions for; unknown ids; none that
            could be the default.
        InputError: no token ids, or ids outside the vocabulary; a mask that is none.
        PromptError: a source longer than the model reads.
        InterventionError: an edit that needs calls of the model, and its module was given.
    """
    decoding = _Decoding.of(model, source, source_mask, max_length, start, eos, cached)
    device, written = source.device, []
    done = torch.zeros(len(source), dtype=torch.bool, device=device)
    # [row]: those of the batch that are still decoded
    rows = torch.arange(len(source), device=device)
    tokens = torch.full_like(rows, decoding.start[-1])
    with decoding.steps(1) as steps:
        for _ in range(decoding.longest):
            tokens = steps.logits(tokens).argmax(dim=-1)
            # [batch]; EOS for rows that left
            next_tokens = torch.full_like(done, decoding.eos, dtype=torch.long)
            next_tokens[rows] = tokens
            written.append(next_tokens)
            done[rows] |= tokens == decoding.eos
            if bool(done.all()):
                break
            places_left = (~done[rows]).nonzero()[:, 0]  # places among the rows, not in the batch
            if steps.rows_may_leave and len(places_left) < len(rows):
                steps.select(places_left, places_left)
                rows, tokens = rows[places_left], tokens[places_left]
    # Of each row what comes up to its first EOS, which is kept.
    targets = torch.stack(written, dim=1).tolist()  # [batch pos]
    return [row[: row.index(decoding.eos) + 1] if decoding.eos in row else row for row in targets]


@public
def beam_search(
    model: SmallSeq2Seq | EncoderDecoderModel,
    source: Int[Tensor, "batch source"],
    source_mask: Int[Tensor, "batch source"] | None = None,
    *,
    n_beams: int = 5,
    length_penalty: float = 1.0,
    max_length: int | None = None,
    start: Sequence[int] | None = None,
    eos: int | None = None,
    cached: bool = True,
) -> list[list[Hypothesis]]:
    """The best targets of each row that a search with ``n_beams`` beams finds, best first.

    As in fairseq (Ott et al. 2019): a step extends every beam by every token; of the ``n_beams``
    best extensions those by EOS are finished, and the best ``n_beams`` others are the next beams.
    A row ends with ``n_beams`` finished hypotheses, or at ``max_length`` tokens, where EOS alone
    may follow. A hypothesis of n tokens, EOS counted, scores its log-probability divided by
    n ** length_penalty (Wu et al. 2016, eq. 14, have ((5 + n) / 6) ** length_penalty there).

    Args:
        n_beams: beams, and finished hypotheses at most.
        length_penalty: 0 for the log-probability; larger ones favour longer targets.
        model, source, source_mask, max_length, start, eos, cached: see :func:`greedy_search`.

    Raises:
        OptionError: ``n_beams`` outside 1 … 10,000, ``length_penalty`` outside -10 … 10; and see
            :func:`greedy_search`.
        InputError, PromptError, InterventionError: see :func:`greedy_search`.
    """
    if not 1 <= n_beams <= MAX_BEAMS:
        raise OptionError(f"n_beams={n_beams}: expected a whole number, 1 to {MAX_BEAMS}")
    if not abs(length_penalty) <= MAX_PENALTY:
        raise OptionError(
            f"length_penalty={length_penalty}: expected a number, -{MAX_PENALTY} to {MAX_PENALTY}"
        )
    decoding = _Decoding.of(model, source, source_mask, max_length, start, eos, cached)
    search = _BeamSearch(source, n_beams, length_penalty, decoding.eos)
    # [row·beam]: the beams of a row are side by side
    tokens = torch.full((len(source) * n_beams,), decoding.start[-1], device=source.device)
    with decoding.steps(n_beams) as steps:
        for length in range(1, decoding.longest + 1):
            logits = steps.logits(tokens).unflatten(0, (-1, n_beams))  # [row beam d_vocab]
            search.extend(logits, last=length == decoding.longest)
            if search.done:
                break
            steps.select(*search.next_rows(steps.rows_may_leave))
            tokens = search.tokens[:, :, -1].flatten()
    return [sorted(each, key=lambda one: -one.score) for each in search.finished]


@dataclass(frozen=True)
class _Decoding:
    """What is to be decoded, checked."""

    model: SmallSeq2Seq | EncoderDecoderModel
    source: Int[Tensor, "batch source"]
    mask: Int[Tensor, "batch source"] | None
    longest: int
    start: tuple[int, ...]
    eos: int
    cached: bool

    @classmethod
    def of(
        cls,
        model: SmallSeq2Seq | EncoderDecoderModel,
        source: Tensor,
        mask: Tensor | None,
        max_length: int | None,
        start: Sequence[int] | None,
        eos: int | None,
        cached: bool,
    ) -> _Decoding:
        check_call(source, mask)
        small = model if isinstance(model, SmallSeq2Seq) else getattr(model, "lens", None)
        if isinstance(model, SmallSeq2Seq):
            sizes, ends = (model.cfg.d_vocab, model.cfg.d_vocab_out), model.cfg.n_ctx
            endless = model.cfg.positions == "relative"
            begins: Sequence[int] = (BOS,)
        else:
            sizes, ends = (model.d_vocab_source, model.d_vocab), model.n_ctx
            endless, begins = False, model.start_ids
        begins = begins if start is None else start
        if isinstance(small, SmallSeq2Seq) and eos is None:
            eos = EOS
        if eos is None or not begins or (max_length is None and ends >= FIRST_TARGET_POSITION):
            raise OptionError(
                f"start={start}, eos={eos}, max_length={max_length}: expected values, since the "
                "model has none of its own for all of them"
            )
        lowest, highest = int(source.min()), int(source.max())
        if lowest < 0 or highest >= sizes[0]:
            raise InputError(
                f"source ids from {lowest} to {highest}: expected 0 to {sizes[0] - 1}; these are "
                "not ids of this model's source vocabulary"
            )
        for token in (*begins, eos):
            if not 0 <= token < sizes[1]:
                raise OptionError(
                    f"start={list(begins)}, eos={eos}: expected a target's tokens, 0 to "
                    f"{sizes[1] - 1}"
                )
        ends -= len(begins) - 1
        longest = ends if max_length is None else max_length
        if longest < 1 or (longest > ends and not endless):
            raise OptionError(
                f"max_length={longest}: expected 1 to the {ends} positions that the model has for "
                "a target"
            )
        return cls(model, source, mask, longest, tuple(begins), eos, cached)

    @contextmanager
    def steps(self, n_beams: int) -> Iterator[_Steps]:
        """All but the last of the tokens that targets begin with are decoded already."""
        model = self.model
        with ExitStack() as opened:
            if isinstance(model, EncoderDecoderModel):
                opened.enter_context(model.open_blocks.held())
            lens = model if isinstance(model, SmallSeq2Seq) else model.lens
            opened.enter_context(torch.no_grad())
            opened.enter_context(in_evaluation_mode(lens))
            steps: _Steps
            if self.cached and isinstance(lens, SmallSeq2Seq) and not is_edited(model):
                steps = _Cached(lens, self.source, self.mask, n_beams)
            else:
                steps = _Recomputed(model, self.source, self.mask, n_beams)
            for token in self.start[:-1]:
                steps.logits(self.source.new_full((len(self.source) * n_beams,), token))
            yield steps


class _BeamSearch:
    """Beams of all rows, and what is finished of them."""

    def __init__(self, source: Tensor, n_beams: int, length_penalty: float, eos: int) -> None:
        n_rows, device = len(source), source.device
        self.n_beams, self.length_penalty, self.eos = n_beams, length_penalty, eos
        self.finished: list[list[Hypothesis]] = [[] for _ in range(n_rows)]
        self.rows = list(range(n_rows))
        """Numbers in the batch of the rows that are still searched."""
        self.scores = torch.full((n_rows, n_beams), -math.inf, device=device)
        self.scores[:, 0] = 0.0  # all beams begin alike: one of them is enough
        self.tokens = torch.zeros((n_rows, n_beams, 0), dtype=torch.long, device=device)
        self.parents = torch.zeros((n_rows, n_beams), dtype=torch.long, device=device)

    def extend(self, logits: Float[Tensor, "row beam d_vocab"], *, last: bool) -> None:
        """Extend every beam by every token; by EOS alone if it is the ``last`` step."""
        d_vocab = logits.shape[2]
        # 1. Log-probabilities of all extensions: [row beam d_vocab].
        precision = torch.promote_types(logits.dtype, torch.float32)
        total = self.scores[:, :, None].to(precision) + logits.to(precision).log_softmax(dim=-1)
        if last:
            total[:, :, torch.arange(d_vocab, device=total.device) != self.eos] = -math.inf
        # 2. The best of them, best first. One of each beam ends, so that enough others are left.
        n_candidates = min(2 * self.n_beams, self.n_beams * d_vocab)  # at most half of them end
        best, index = total.flatten(1).topk(n_candidates, dim=1)  # [row candidate]
        parents, tokens = index // d_vocab, index % d_vocab
        # 3. Those by EOS among the n_beams best are finished.
        ends = tokens == self.eos
        finish = ends[:, : self.n_beams] & (best[:, : self.n_beams] > -math.inf)
        for place, rank in finish.nonzero().tolist():
            beam = self.tokens[place, parents[place, rank]].tolist()
            finished = self.finished[self.rows[place]]
            if len(finished) < self.n_beams:
                ended = (*beam, self.eos)
                score = float(best[place, rank]) / len(ended) ** self.length_penalty
                finished.append(Hypothesis(ended, score))
        # 4. The next beams: those that go on, still best first, as the sort is stable.
        order = ends.int().sort(dim=1, stable=True).indices[:, : self.n_beams]
        self.scores, self.parents = best.gather(1, order), parents.gather(1, order)
        before = self.parents[:, :, None].expand(-1, -1, self.tokens.shape[2])  # [row beam pos]
        new = tokens.gather(1, order)[:, :, None]  # [row beam 1]
        self.tokens = torch.cat([self.tokens.gather(1, before), new], dim=2)

    @property
    def done(self) -> bool:
        """Whether every row has all its hypotheses."""
        return all(len(each) == self.n_beams for each in self.finished)

    def next_rows(self, may_leave: bool) -> tuple[Tensor, Tensor]:
        """For each beam the one that it extends, and the sources that are left; rows that have
        ended are dropped if they ``may_leave``."""
        device = self.scores.device
        left = [i for i, row in enumerate(self.rows) if len(self.finished[row]) < self.n_beams]
        places = torch.tensor(left if may_leave else range(len(self.rows)), device=device)
        if len(places) < len(self.rows):
            self.rows = [self.rows[i] for i in left]
            self.scores, self.parents = self.scores[places], self.parents[places]
            self.tokens = self.tokens[places]
        # [row·beam], [row]
        return (places[:, None] * self.n_beams + self.parents).flatten(), places


class _Steps(Protocol):
    """Decodes the targets of all rows, one token after the other."""

    rows_may_leave: bool

    def logits(self, tokens: Int[Tensor, "row"]) -> Float[Tensor, "row d_vocab_out"]:
        """Logits of what follows one more token of each row."""

    def select(self, rows: Int[Tensor, "kept"], sources: Int[Tensor, "source"]) -> None:
        """Go on with these rows, in this order, and with these sources."""


class _Recomputed:
    """Each step is a call of the whole model on all tokens so far."""

    rows_may_leave = False

    def __init__(
        self,
        model: SmallSeq2Seq | EncoderDecoderModel,
        source: Tensor,
        mask: Tensor | None,
        n_beams: int,
    ) -> None:
        self.model = model
        self.source = source.repeat_interleave(n_beams, dim=0)
        self.mask = None if mask is None else mask.repeat_interleave(n_beams, dim=0)
        self.given = self.source[:, :0]  # [row 0], the targets so far

    def logits(self, tokens: Int[Tensor, "row"]) -> Float[Tensor, "row d_vocab_out"]:
        self.given = torch.cat([self.given, tokens[:, None]], dim=1)
        model: Any = self.model
        if isinstance(model, EncoderDecoderModel):
            joint, mask = model.join(self.source, self.given, self.mask)
            return model.forward(joint, attention_mask=mask, read="last")[:, -1]
        logits: Tensor = model(self.source, self.given, self.mask)
        return logits[:, -1]

    def select(self, rows: Int[Tensor, "row"], sources: Int[Tensor, "source"]) -> None:
        self.given = self.given[rows]


class _Cached:
    """Each step runs the decoder on one token of each row; rows of a source are side by side."""

    rows_may_leave = True

    def __init__(
        self, model: SmallSeq2Seq, source: Tensor, mask: Tensor | None, n_beams: int
    ) -> None:
        self.model, self.n_beams = model, n_beams
        n_rows, self.length = len(source) * n_beams, 0
        memory = model.encoded(source, mask)
        mask = torch.ones_like(source) if mask is None else mask
        room = -source.shape[1] % ROOM  # up to a multiple of ROOM
        self.masked = (pad(mask, (0, room)) == 0)[:, None, None, :]  # [source 1 1 room]
        """True at keys that are none: a source's padding, and the room up to a multiple of ROOM."""
        self.of_source: list[_Past] = []
        self.past: list[_Past] = []
        self.blocks: list[Callable[..., Tensor]] = []
        block: Any
        for block in model.decoder_blocks:
            k, v = block.cross_attn.projected(memory, "KV")
            # [source pos head d_head], laid out anew, once for all beams and steps
            of_source = _Past(k.transpose(1, 2), v.permute(0, 2, 3, 1)).with_room(room)
            self.of_source.append(of_source)
            self_attention = self._with_past(block.self_attn, n_rows)
            second = getattr(block, "second_attn", None)
            cross = partial(self._cross, block.cross_attn, len(self.of_source) - 1)
            self.blocks.append(
                partial(
                    block.through,
                    self_attention=self_attention,
                    cross=partial(cross, block.cross_attn.joined("Q")),
                    second=self_attention if second is None else self._with_past(second, n_rows),
                )
            )

    def _with_past(self, attention: Attention, n_rows: int) -> Callable[[Tensor], Tensor]:
        """A self-attention of one token to those before it and itself."""
        heads, _, d_head = attention.W_K.shape
        keys = attention.W_K.new_zeros((n_rows, heads, 0, d_head))
        self.past.append(_Past(keys, keys.mT))
        return partial(self._self_attention, attention, len(self.past) - 1, attention.joined("QKV"))

    def logits(self, tokens: Int[Tensor, "row"]) -> Float[Tensor, "row d_vocab_out"]:
        # 1. Room for the token, and which of the first positions are not in use yet.
        if self.length % ROOM == 0:
            self.past = [past.with_room(ROOM) for past in self.past]
        self.unused = (torch.arange(ROOM, device=tokens.device) > self.length)[None, None, None]
        # 2. The token alone through all blocks: [row 1 d_model].
        resid = self.model.target_embedded(tokens[:, None], first=self.length)
        states: list[Tensor] = []
        for through in self.blocks:
            states.append(self.model.as_state(resid))
            resid = through(resid, states=states)
        # 3. Each self-attention has kept its key and value.
        self.length += 1
        return self.model.logits(self.model.decoder_final(resid)[:, 0])

    def _self_attention(
        self, attention: Attention, layer: int, joined: Joined, x: Float[Tensor, "row 1 d_model"]
    ) -> Float[Tensor, "row 1 d_model"]:
        past = self.past[layer]
        q, k, v = attention.projected(x, "QKV", joined)
        past.keys[:, :, self.length] = k[:, 0]  # [row head d_head], in place
        past.values[..., self.length] = v[:, 0]
        # the query of a RelativeAttention is at the last of its keys
        if self.length < ROOM and not isinstance(attention, RelativeAttention):
            return past.attended(attention, q, self.unused, ROOM)
        return past.attended(attention, q, None, self.length + 1)

    def _cross(
        self, attention: Attention, layer: int, joined: Joined, x: Float[Tensor, "row 1 d_model"]
    ) -> Float[Tensor, "row 1 d_model"]:
        """Cross-attention of one layer; the beams of a source are its queries."""
        # [source·beam 1 d_model] -> [source beam d_model]
        (q,) = attention.projected(x.view(-1, self.n_beams, x.shape[2]), "Q", joined)
        of_source = self.of_source[layer]
        return of_source.attended(attention, q, self.masked, self.masked.shape[3]).view(x.shape)

    def select(self, rows: Int[Tensor, "kept"], sources: Int[Tensor, "source"]) -> None:
        if len(sources) < len(self.masked):
            self.of_source = [past.of(sources) for past in self.of_source]
            self.masked = self.masked[sources]
        self.past = [past.of(rows) for past in self.past]


class _Past(NamedTuple):
    """Keys and values of an attention, laid out as its products read them fastest, with positions
    to spare: over fewer than 16, torch's softmax on a CPU takes as long as over hundreds."""

    keys: Float[Tensor, "row head pos d_head"]
    values: Float[Tensor, "row head d_head pos"]

    def with_room(self, more: int) -> _Past:
        """The same with ``more`` positions of zeros at the end."""
        keys, values = pad(self.keys, (0, 0, 0, more)), pad(self.values, (0, more))
        return _Past(keys.contiguous(), values.contiguous())

    def of(self, rows: Int[Tensor, "kept"]) -> _Past:
        """Keys and values of the rows ``[kept]``, copied."""
        return _Past(self.keys.index_select(0, rows), self.values.index_select(0, rows))

    def attended(
        self,
        attention: Attention,
        q: Float[Tensor, "row query head d_head"],
        masked: Bool[Tensor, "#row 1 1 room"] | None,
        length: int,
    ) -> Float[Tensor, "row query d_model"]:
        """Attention over the first ``length`` positions, without the ``masked`` ones."""
        k = self.keys[:, :, :length].transpose(1, 2)  # [row pos head d_head], a view
        v = self.values[..., :length].permute(0, 3, 1, 2)  # [row pos head d_head], a view
        return attention.attended(q, k, v, masked)


def is_edited(model: SmallSeq2Seq | EncoderDecoderModel) -> bool:
    """Whether a hook or an edit may act on any part of the model."""
    parts = model.lens.modules() if isinstance(model, EncoderDecoderModel) else model.modules()
    return bool(
        (isinstance(model, EncoderDecoderModel) and model.active_hooks)
        or torch_module._global_forward_hooks
        or torch_module._global_forward_pre_hooks
        or any(
            part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part)
            for part in parts
        )
    )
