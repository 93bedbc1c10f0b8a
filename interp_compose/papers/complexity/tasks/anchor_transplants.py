"""Pairs of anchor sequences whose chains are exchanged (complexity control, eq. 1).

The phrase is the chain: ``23 [a b] 43 …`` and ``57 [c a] 81 …``. With the source's chain in its
place the target should answer what the source's operations make of the target's key.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import numpy as np

from interp_compose._public import public
from interp_compose.errors import InputError
from interp_compose.papers.complexity.tasks.anchor_text import anchor_examples, words_of
from interp_compose.papers.complexity.tasks.anchors import AnchorData, AnchorTask
from interp_compose.tasks.transplants import TransplantPair

N_SEQUENCES: Final = 1500
"""About a third of them end in their chain, or have no partner."""


def default_pairs(seed: int) -> tuple[TransplantPair, ...]:
    """Pairs of sequences with test keys, of the task as it is by default."""
    task = AnchorTask()
    return anchor_transplants(task, task.sample("id", N_SEQUENCES, seed=seed), seed=seed)


@public
def anchor_transplants(
    task: AnchorTask, data: AnchorData, *, seed: int = 42
) -> tuple[TransplantPair, ...]:
    """One pair for each sequence that has a partner, drawn at random.

    A partner has its key at the same position, so that nothing but key, chain and noise tells the
    two apart; the expected answer, the target's own and the partner's own are three. A sequence
    whose chain ends at the last position, where the answer is predicted, is left out.

    Args:
        task: that the sequences were sampled from.
        data: from :meth:`.AnchorTask.sample`.
        seed: of the partners.

    Raises:
        InputError: no sequence has a partner; as :func:`.anchor_text.anchor_examples`.
        AnswerError: a target of 0, which is no word.
    """
    examples, vocabulary = anchor_examples(task, data), words_of(task)
    spans = [(example.spans or ())[0] for example in examples]
    keys, positions = data.keys.tolist(), data.positions.tolist()
    chains = [task.chains[chain] for chain in data.chains.tolist()]
    answers = data.targets.tolist()
    words = [example.prompt.split() for example in examples]
    usable = [i for i, place in enumerate(positions) if place + task.n_anchors < task.length - 1]
    by_position: dict[int, list[int]] = defaultdict(list)
    for i in usable:
        by_position[positions[i]].append(i)
    random = np.random.default_rng(seed)
    pairs = []
    for i in usable:
        for j in random.permutation(by_position[positions[i]]).tolist():
            expected = task.apply(keys[i], chains[j])
            if len({expected, answers[i], answers[j]}) == 3 and expected > 0:
                source, target = examples[j], examples[i]
                start = positions[i] + 1
                composed = [*words[i][:start], *chains[j], *words[i][start + task.n_anchors :]]
                pairs.append(
                    TransplantPair(
                        source.prompt,
                        spans[j],
                        target.prompt,
                        spans[i],
                        f" {vocabulary[expected]}",
                        target.answer,
                        " ".join(composed),
                        source_answer=source.answer,
                    )
                )
                break
    if not pairs:
        raise InputError(
            f"none of {len(data)} sequences has a partner: one with its key at the same position "
            "and an answer of its own, whose chain does not end the sequence; give more sequences"
        )
    return tuple(pairs)
