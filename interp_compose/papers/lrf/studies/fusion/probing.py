"""What a linear probe reads from each layer of the encoder: words, roles, and the embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from interp_compose.errors import InputError
from interp_compose.papers.lrf.grammar import marks_of
from interp_compose.papers.lrf.models.seq2seq import SmallSeq2Seq
from interp_compose.papers.lrf.probes.linear import labels_of_words, linear_probe, read_back
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


def probe_rows(model: SmallSeq2Seq, data: SequenceData, n: int) -> tuple[Rows, Rows]:
    """Probes of what enters and leaves each layer of the encoder, on ``n`` sentences.

    First a row for each ``layer`` (0: the embeddings) and ``probe``, as :func:`probe_tasks` has
    them: the numbers of :class:`.linear.Probed`, ``control``, the accuracy of a probe of the
    control task, and ``n_types``, the words of the training tokens. Then a row for each ``layer``:
    ``r2`` of the embeddings, read back by :func:`.linear.read_back`.
    """
    parts = probe_sentences(data, n)
    tasks = probe_tasks(data, *parts)
    of_train, of_test = (encoder_states(model, pairs) for pairs in parts)
    probes, read = [], []
    for layer, (train, test) in enumerate(zip(of_train, of_test, strict=True)):
        r2 = read_back(train, of_train[0], test, of_test[0])
        read.append({"layer": layer, "r2": r2, "n_train": len(train), "n": len(test)})
        for task in tasks:
            vectors = train[task.chosen[0]], test[task.chosen[1]]
            probed, control = (
                linear_probe(vectors[0], labels[0], vectors[1], labels[1])
                for labels in (task.labels, task.control)
            )
            place = {"layer": layer, "probe": task.name, "n_types": task.n_types}
            probes.append({**place, **asdict(probed), "control": control.accuracy})
    return probes, read


def probe_tasks(
    data: SequenceData, train: Sequence[EncodedPair], test: Sequence[EncodedPair]
) -> list[ProbeTask]:
    """What is probed for: ``"word"`` and, where the grammar gives some, ``"role"``.

    The control task of "role" gives each word a label, drawn from the roles of the training tokens.
    That of "word" has the words themselves as its labels, dealt out to the tokens anew: a label for
    each word would be the same task under other names.
    """
    words = tuple(np.concatenate([pair.source[:-1] for pair in part]) for part in (train, test))
    everywhere = tuple(np.ones(len(part), dtype=bool) for part in words)
    random = np.random.default_rng(DRAW)
    dealt = tuple(random.permutation(part) for part in words)
    tasks = [ProbeTask("word", everywhere, words, dealt, len(np.unique(words[0])))]
    roles = [
        np.array([role for one in marks_of(data, part) for role in one.roles[:-1]])
        for part in (train, test)
    ]
    names = sorted({*roles[0]} - {""})
    if len(names) < 2:
        return tasks
    chosen = tuple(part != "" for part in roles)
    labels = tuple(
        np.array([names.index(role) if role in names else len(names) for role in part[where]])
        for part, where in zip(roles, chosen, strict=True)
    )
    of_role = tuple(part[where] for part, where in zip(words, chosen, strict=True))
    label_of = labels_of_words(np.concatenate(of_role).tolist(), labels[0], DRAW)
    control = tuple(np.array([label_of[word] for word in part.tolist()]) for part in of_role)
    return [*tasks, ProbeTask("role", chosen, labels, control, len(np.unique(of_role[0])))]


@torch.no_grad()
def encoder_states(
    model: SmallSeq2Seq, pairs: Sequence[EncodedPair]
) -> list[Float[np.ndarray, "token d_model"]]:
    """What enters layer 0 of the encoder and what leaves each layer, at the words of all sources,
    their end left out, one after the other; in float64."""
    names = ["encoder_blocks.0.hook_resid_pre"]
    names += [
        f"encoder_blocks.{layer}.hook_resid_post" for layer in range(model.cfg.n_encoder_layers)
    ]
    residuals: list[list[Any]] = [[None] * len(pairs) for _ in names]
    for places, batch in in_batches(pairs, BOS, model.b_U.device):
        states: dict[str, Any] = {}

        def keep(resid: Any, hook: Any) -> None:
            states[hook.name] = resid.double().cpu().numpy()  # noqa: B023  called in this turn

        with model.hooks(fwd_hooks=[(name, keep) for name in names]):
            mask = batch.source_mask
            model.encoded(batch.source, None if bool(mask.all()) else mask)
        for of_pairs, name in zip(residuals, names, strict=True):
            for row, place in enumerate(places):
                of_pairs[place] = states[name][row, : len(pairs[place].source) - 1]
    return [np.concatenate(of_pairs) for of_pairs in residuals]
