"""The Python that repeats what was clicked; ``model`` is the one given to :func:`ic.explore`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from interp_compose.errors import InputError
from interp_compose.models.encoder_decoder import EncoderDecoderModel
from interp_compose.studies.explore.cosines import TwoTexts
from interp_compose.studies.explore.next_tokens import NextTokens
from interp_compose.studies.explore.words import ClickedText
from interp_compose.text.find_words import word_groups, word_positions
from interp_compose.text.units import TokenizedPrompt

HEAD = ["import torch", "import interp_compose as ic", ""]


def python_of(run: NextTokens | TwoTexts) -> str:
    """Its variable ``now`` is the number shown under this name: the answer's log-probability, or
    the cosine."""
    if isinstance(run, TwoTexts):
        return "\n".join(HEAD + _of_two(run))
    if run.moved is not None:
        return "\n".join(HEAD + _of_transplant(run))
    return "\n".join(HEAD + _of_next(run))


def _of_next(run: NextTokens) -> list[str]:
    item, ids = run.item, run.item.prompt.ids.tolist()
    n_answer = len(item.answer_ids)
    plain = n_answer == 1 and not isinstance(run.model, EncoderDecoderModel)
    if plain:
        lines = [f"prompt = {run.state.text!r}"]
        call = "model(prompt)[0, -1]"
    else:
        side = "of source, target" if isinstance(run.model, EncoderDecoderModel) else "of the text"
        lines = [
            f"# {side} and of the answer but for its last token",
            f"tokens = torch.tensor([{ids}])",
        ]
        call = f"model(tokens)[0, -{n_answer}:]"
    blocks = []
    if run.state.knocked_out:
        words = _words(run, run.text, run.state.knocked_out) if plain else None
        where = words or f"torch.tensor([{run.keys[0].int().tolist()}]).bool()"
        blocks.append(f"ic.mask_attention(model, keys={where})")
    if run.state.heads:
        blocks.append(f"ic.ablate(model, heads={[*run.state.heads]})")
    if run.pools:
        units = _units(run) if plain else None
        where = units or f"torch.tensor([{item.prompt.groups.tolist()}])"
        blocks.append(f'ic.pool_at(model, {run.state.layer}, {where}, "{run.state.how}")')
    lines += _within(blocks, f"logits = {call}")
    curve = []
    if run.pools and not blocks[:-1]:
        curve = [
            "",
            "# the curve, with all controls",
            f"example = ic.Example({run.state.text!r}, {run.answer!r},",
            f"    spans={run.item.example.spans}{_target(run)})",
            'curve = ic.cap_curve(model, [example], unit="span", multi_token_answers=True)',
        ]
    if plain:
        answer = f"answer = {item.answer_ids[0]}  # {run.answer!r}"
        now = "now = torch.log_softmax(logits, dim=0)[answer]"
    else:
        answer = f"answer = torch.tensor([{list(item.answer_ids)}])  # {run.answer!r}"
        now = "now = torch.log_softmax(logits, dim=1).gather(1, answer.T).sum()"
    return [*lines, answer, now, *curve]


def _target(run: NextTokens) -> str:
    return f", target={run.state.target!r}" if run.state.target else ""


def _of_transplant(run: NextTokens) -> list[str]:
    state, second = run.state, run.second
    assert state.transplant is not None
    assert second is not None
    taken, replaced = state.transplant
    logits = run.run()[0, 0]  # [d_vocab], clean
    other = next(
        int(token) for token in logits.topk(2).indices if int(token) != run.item.answer_ids[0]
    )
    return [
        "pair = ic.TransplantPair(",
        f"    source={second.prompt.text!r}, source_span={second.span(taken)},",
        f"    target={state.text!r}, target_span={run.text.span(replaced)},",
        f"    expected={run.answer!r}, answer={run.model.tokenizer.decode([other])!r},",
        ")",
        f'moved = ic.transplant(model, [pair], layers=[{state.layer}], pooling="{state.how}",',
        "    controls=False, multi_token_answers=True, progress=False)",
        'now = moved.outcomes["expected_logprob"].item()',
    ]


def _of_two(run: TwoTexts) -> list[str]:
    lines = ["vectors = []"]
    read = "mean(dim=0)" if run.reading.how == "mean" else "[0]"
    knocked = (run.state.knocked_out, run.state.second_knocked_out)
    for text, prompt, words in zip(run.texts, run.prompts, knocked, strict=True):
        blocks = []
        if words:
            keys = text.tokens(words).astype(int).tolist()
            blocks.append(f"ic.mask_attention(model, keys=torch.tensor([{keys}]).bool())")
        if run.state.heads:
            blocks.append(f"ic.ablate(model, heads={[*run.state.heads]})")
        if prompt.affected:
            groups = f"torch.tensor([{prompt.groups.tolist()}])"
            blocks.append(f'ic.pool_at(model, {run.state.layer}, {groups}, "{run.state.how}")')
        hidden = f"model.encode({text.prompt.text!r})[0]"
        value = f"{hidden}.{read}" if read.startswith("mean") else f"{hidden}{read}"
        lines += _within(blocks, f"vectors.append({value})")
    return [*lines, "now = torch.cosine_similarity(*vectors, dim=0)"]


def _within(blocks: Sequence[str], line: str) -> list[str]:
    if not blocks:
        return [line]
    joined = ", \\\n     ".join(blocks)
    return [f"with {joined}:", f"    {line}"]


def _words(run: NextTokens, text: ClickedText, chosen: Sequence[int]) -> str | None:
    """The words as Python names them, where these names mean these words and no others."""
    texts = list(dict.fromkeys(text.prompt.group_text(i) for i in chosen))
    ids = text.prompt.ids.tolist()
    try:
        named = word_positions(run.model.tokenizer, ids, texts)
    except InputError:
        return None
    here = np.flatnonzero(text.tokens(chosen)).tolist()
    return repr(texts) if sorted(named) == here else None


def _units(run: NextTokens) -> str | None:
    """Likewise of the units of several tokens."""
    units, prompt = run.state.units or (), run.item.prompt
    several = [unit for unit in units if run.text.tokens([*range(*unit)]).sum() > 1]
    texts = list(dict.fromkeys(run.text.phrase(unit) for unit in several))
    try:
        named = word_groups(run.model.tokenizer, prompt.ids.tolist(), texts)
    except InputError:
        return None
    return repr(texts) if _same(np.array(named), prompt) else None


def _same(named: np.ndarray, prompt: TokenizedPrompt) -> bool:
    """Whether both pool the same tokens together: each unit of several tokens, by its first and
    last one."""

    def several(groups: np.ndarray) -> set[tuple[int, int]]:
        places = [np.flatnonzero(groups == unit) for unit in np.unique(groups[groups >= 0])]
        return {(int(at[0]), int(at[-1])) for at in places if len(at) > 1}

    return several(named) == several(prompt.groups)
