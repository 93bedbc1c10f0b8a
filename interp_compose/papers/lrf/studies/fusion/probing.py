"""What a linear probe reads from each layer of a stack: words, roles, and the embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int

from interp_compose.errors import InputError
from interp_compose.papers.lrf.grammar import marks_of
from interp_compose.papers.lrf.models.seq2seq import SmallSeq2Seq
from interp_compose.papers.lrf.probes.entanglement import cross_probe
from interp_compose.papers.lrf.probes.linear import labels_of_words, linear_probe, read_back
from interp_compose.papers.lrf.studies.generalise.reads import STACKS
from interp_compose.papers.shared.grid.sequence_data import SequenceData
from interp_compose.papers.shared.text.vocabulary import BOS
from interp_compose.papers.shared.training.sequence_objective import EncodedPair, in_batches

Rows = list[dict[str, Any]]
TRAINED_ON: Final = 0.75
"""Share of the sentences that train the probes; the others test them."""
FEWEST: Final = 4
"""Sentences without which there is no probe."""
DRAW: Final = 0
"""Seed of sentences and control tasks, the same for every model."""


@dataclass(frozen=True)
class ProbeTask:
    """Labels of some of the tokens of training and of test sentences."""

    name: str
    chosen: tuple[Bool[np.ndarray, "_"], ...]
    labels: tuple[Int[np.ndarray, "_"], ...]
    control: tuple[Int[np.ndarray, "_"], ...]
    n_types: int


def probe_sentences(data: SequenceData, n: int) -> tuple[list[EncodedPair], list[EncodedPair]]:
    """So many different sentences of the training split, always the same ones: those that train the
    probes, and those that test them.

    Raises:
        InputError: there are fewer than four.
    """
    different = list({pair.source.tobytes(): pair for pair in data.splits["train"]}.values())
    if len(different) < FEWEST:
        raise InputError(
            f"the training split has {len(different)} different sources; probes need {FEWEST} or "
            "more, of which some train them and others test them"
        )
    chosen = np.random.default_rng(DRAW).permutation(len(different))[:n]
    pairs = [different[i] for i in chosen]
    first = round(TRAINED_ON * len(pairs))
    return pairs[:first], pairs[first:]


@dataclass(frozen=True)
class StackTokens:
    """The tokens of sentences that are probed in one stack, one sentence after the other: the words
    that the encoder reads, or those that the decoder is given; the start and the end are left out.

    Attributes:
        words: ids.
        roles: an empty text where a token has none.
        kinds: of each token.
    """

    words: Int[np.ndarray, "token"]
    roles: np.ndarray
    kinds: np.ndarray

    @classmethod
    def of(cls, data: SequenceData, pairs: Sequence[EncodedPair], stack: str) -> StackTokens:
        marks = marks_of(data, pairs)
        sides = [pair.source if stack == "encoder" else pair.target for pair in pairs]
        roles = [
            role
            for one in marks
            for role in (one.roles[:-1] if stack == "encoder" else one.target_roles[1:])
        ]
        kinds = [
            kind
            for one in marks
            for kind in (one.source[:-1] if stack == "encoder" else one.target[1:])
        ]
        words = np.concatenate([side[:-1] for side in sides])
        return cls(words, np.array(roles), np.array(kinds))


def probe_rows(model: SmallSeq2Seq, data: SequenceData, n: int) -> dict[str, Rows]:
    """Probes of what enters and leaves each layer of both stacks, on ``n`` sentences.

    ``probes`` has a row for each ``stack``, ``layer`` (0: the embeddings) and ``probe``, as
    :func:`probe_tasks` has them: the numbers of :class:`.linear.Probed`, ``control``, the accuracy
    of a probe of the control task, and ``n_types``, the words of the training tokens.
    ``read_back`` has a row for each stack and layer: ``r2`` of the embeddings, read back by
    :func:`.linear.read_back`. ``entanglement``, as :func:`cross_rows` has it.
    """
    parts = probe_sentences(data, n)
    tables: dict[str, Rows] = {"probes": [], "read_back": [], "entanglement": []}
    for stack in STACKS:
        tokens = [StackTokens.of(data, part, stack) for part in parts]
        tasks = probe_tasks(tokens[0], tokens[1], stack)
        of_train, of_test = (stack_states(model, pairs, stack) for pairs in parts)
        for layer, (train, test) in enumerate(zip(of_train, of_test, strict=True)):
            where = {"stack": stack, "layer": layer}
            r2 = read_back(train, of_train[0], test, of_test[0])
            row = {**where, "r2": r2, "n_train": len(train), "n": len(test)}
            tables["read_back"].append(row)
            for task in tasks:
                vectors = train[task.chosen[0]], test[task.chosen[1]]
                probed, control = (
                    linear_probe(vectors[0], labels[0], vectors[1], labels[1])
                    for labels in (task.labels, task.control)
                )
                place = {**where, "probe": task.name, "n_types": task.n_types}
                row = {**place, **asdict(probed), "control": control.accuracy}
                tables["probes"].append(row)
            crossed = cross_rows(train, tokens[0], test, tokens[1])
            tables["entanglement"] += [{**where, **row} for row in crossed]
    return tables


def probe_tasks(train: StackTokens, test: StackTokens, stack: str) -> list[ProbeTask]:
    """Labels that are probed for: ``"word"`` and, where the grammar gives some, ``"role"``.

    The control task of "role" gives each word a label, drawn from the roles of the training tokens.
    That of "word" has the words themselves as its labels, dealt out to the tokens anew: a label for
    each word would be the same task under other names. In the decoder words are those of the tokens
    with a role, where there are any.
    """
    parts = (train, test)
    everywhere = tuple(np.ones(len(part.words), dtype=bool) for part in parts)
    with_role = tuple(part.roles != "" for part in parts)
    in_decoder = stack == "decoder" and bool(with_role[0].any())
    chosen = with_role if in_decoder else everywhere
    words = tuple(part.words[where] for part, where in zip(parts, chosen, strict=True))
    random = np.random.default_rng(DRAW)
    dealt = tuple(random.permutation(part) for part in words)
    tasks = [ProbeTask("word", chosen, words, dealt, len(np.unique(words[0])))]
    names = sorted({*train.roles.tolist()} - {""})
    if len(names) < 2:
        return tasks
    labels = tuple(
        np.array([names.index(role) if role in names else len(names) for role in part.roles[where]])
        for part, where in zip(parts, with_role, strict=True)
    )
    of_role = tuple(part.words[where] for part, where in zip(parts, with_role, strict=True))
    label_of = labels_of_words(np.concatenate(of_role).tolist(), labels[0], DRAW)
    control = tuple(np.array([label_of[word] for word in part.tolist()]) for part in of_role)
    return [*tasks, ProbeTask("role", with_role, labels, control, len(np.unique(of_role[0])))]


def cross_rows(
    train: Float[np.ndarray, "train d_model"],
    train_tokens: StackTokens,
    test: Float[np.ndarray, "test d_model"],
    test_tokens: StackTokens,
) -> Rows:
    """Role and word under each other's control, within one kind of tokens: that of which the
    training tokens with a role have most different words.

    A row for each ``probe`` and what it is ``given``: "role" across words, "word" across roles; the
    ``kind`` of the tokens, and the numbers of :class:`.entanglement.CrossProbed`. None where the
    grammar gives no roles.
    """
    roles = train_tokens.roles
    with_role = roles != ""
    if not with_role.any():
        return []
    words = pd.Series(train_tokens.words[with_role])
    # Of kinds with as many words, the first by name.
    kind = str(words.groupby(train_tokens.kinds[with_role]).nunique().idxmax())
    sides, every = [], np.unique(np.concatenate([roles, test_tokens.roles]))
    for vectors, tokens in ((train, train_tokens), (test, test_tokens)):
        own = (tokens.roles != "") & (tokens.kinds == kind)
        ids = every.searchsorted(tokens.roles[own])
        sides.append((vectors[own], {"role": ids, "word": tokens.words[own]}))
    (own_train, of_train), (own_test, of_test) = sides
    rows = []
    for probe, given in (("role", "word"), ("word", "role")):
        crossed = cross_probe(
            *(own_train, of_train[probe], of_train[given]),
            *(own_test, of_test[probe], of_test[given]),
        )
        if crossed is not None:
            rows.append({"probe": probe, "given": given, "kind": kind, **asdict(crossed)})
    return rows


@torch.no_grad()
def stack_states(
    model: SmallSeq2Seq, pairs: Sequence[EncodedPair], stack: str
) -> list[Float[np.ndarray, "token d_model"]]:
    """What enters layer 0 of a stack and what leaves each layer, at the tokens of
    :class:`StackTokens`, one sentence after the other; in float64."""
    blocks, n_layers = {
        "encoder": ("encoder_blocks", model.cfg.n_encoder_layers),
        "decoder": ("decoder_blocks", model.cfg.n_decoder_layers),
    }[stack]
    names = [f"{blocks}.0.hook_resid_pre"]
    names += [f"{blocks}.{layer}.hook_resid_post" for layer in range(n_layers)]
    residuals: list[list[Any]] = [[None] * len(pairs) for _ in names]
    for places, batch in in_batches(pairs, BOS, model.b_U.device):
        states: dict[str, Any] = {}

        def keep(resid: Any, hook: Any) -> None:
            states[hook.name] = resid.double().cpu().numpy()  # noqa: B023  called in this turn

        with model.hooks(fwd_hooks=[(name, keep) for name in names]):
            if stack == "encoder":
                mask = batch.source_mask
                model.encoded(batch.source, None if bool(mask.all()) else mask)
            else:
                batch.hidden(model)
        for of_pairs, name in zip(residuals, names, strict=True):
            for row, place in enumerate(places):
                pair = pairs[place]
                # the source without its end; what the decoder is given after its start
                own = slice(0, len(pair.source) - 1)
                own = own if stack == "encoder" else slice(1, len(pair.target))
                of_pairs[place] = states[name][row, own]
    return [np.concatenate(of_pairs) for of_pairs in residuals]
