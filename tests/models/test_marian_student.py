"""Marian's students: files written here byte by byte, against the formulas in float64."""

from __future__ import annotations

import math
import shutil
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from interp_compose.errors import (
    CapabilityError,
    CorruptFileError,
    InterpComposeError,
    InterventionError,
    OptionError,
)
from interp_compose.interventions.ablate import ablate
from interp_compose.interventions.mask_attention import mask_attention
from interp_compose.interventions.mask_residual import mask_residual
from interp_compose.models.load import load_model
from interp_compose.models.marian_student import MarianStudentModel, sinusoids
from interp_compose.studies.ablation.measure import ablation_curve
from interp_compose.studies.audit.measure import audit
from interp_compose.studies.cap.measure import cap_curve
from interp_compose.types import Example
from tests.marian_files import DECODER, ENCODER, HEADS, WIDTH, Matrix, write, write_pieces

SOURCE, TARGET = [3, 4, 5, 6, 0], [0, 9, 10, 11]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Matrix]]:
    folder = tmp_path_factory.mktemp("en-pt")
    write_pieces(folder)
    (folder / "lex.s2t.bin").write_bytes(struct.pack("<QQ", 0xF11A48D5013417F5, 1))
    return folder, write(folder / "model.bin")


@pytest.fixture
def model(stored: tuple[Path, dict[str, Matrix]]) -> MarianStudentModel:
    loaded = load_model(stored[0])
    assert isinstance(loaded, MarianStudentModel)
    return loaded


# ---- the formulas, position by position --------------------------------------------------


def norm(x: Matrix, w: dict[str, Matrix], name: str) -> Matrix:
    spread = x - x.mean()
    root = math.sqrt((spread**2).mean() + 1e-6)
    return spread / root * w[f"{name}_scale"][0] + w[f"{name}_bias"][0]


def attention(queries: Matrix, keys: Matrix, w: dict[str, Matrix], name: str) -> Matrix:
    q, k, v = (
        x @ w[f"{name}_W{letter}"] + w[f"{name}_b{letter}"]
        for x, letter in ((queries, "q"), (keys, "k"), (keys, "v"))
    )
    out = np.zeros_like(queries)
    size = WIDTH // HEADS
    for at in range(len(queries)):
        for head in range(HEADS):
            one = slice(head * size, (head + 1) * size)
            scores = np.array([q[at, one] @ key[one] / math.sqrt(size) for key in k])
            weights = np.exp(scores - scores.max())
            out[at, one] = sum(
                p * value[one] for p, value in zip(weights / weights.sum(), v, strict=True)
            )
    return out @ w[f"{name}_Wo"] + w[f"{name}_bo"]


def recurrent(x: Matrix, w: dict[str, Matrix], name: str) -> Matrix:
    cell, out = np.zeros(WIDTH), np.zeros_like(x)
    for at, row in enumerate(x):
        f = 1 / (1 + np.exp(-(row @ w[f"{name}_Wf"] + w[f"{name}_bf"][0])))
        cell = f * cell + (1 - f) * (row @ w[f"{name}_W"])
        out[at] = np.maximum(cell, 0)
    return out


def embedded(tokens: list[int], w: dict[str, Matrix], *, begins_with_zero: bool) -> Matrix:
    out = np.zeros((len(tokens), WIDTH))
    for at, token in enumerate(tokens):
        if not (begins_with_zero and token == 0):
            out[at] = w["Wemb"][token] * math.sqrt(WIDTH)
        for i in range(WIDTH // 2):
            angle = at / 10000 ** (i / (WIDTH // 2 - 1))
            out[at, i] += math.sin(angle)
            out[at, WIDTH // 2 + i] += math.cos(angle)
    return out


def mlp(x: Matrix, w: dict[str, Matrix], block: str) -> Matrix:
    inner = np.maximum(x @ w[f"{block}_ffn_W1"] + w[f"{block}_ffn_b1"], 0)
    return inner @ w[f"{block}_ffn_W2"] + w[f"{block}_ffn_b2"]


def normed(x: Matrix, w: dict[str, Matrix], name: str) -> Matrix:
    return np.stack([norm(row, w, name) for row in x])


def expected(
    source: list[int],
    target: list[int],
    w: dict[str, Matrix],
    units: Sequence[Sequence[int]] | None = None,
) -> Matrix:
    """Logits; with ``units`` of source positions, whose embeddings become their means."""
    x = embedded(source, w, begins_with_zero=False)
    if units is not None:
        x = np.stack([x[list(unit)].mean(0) for unit in units])
    for layer in range(1, ENCODER + 1):
        block = f"encoder_l{layer}"
        x = normed(x + attention(x, x, w, f"{block}_self"), w, f"{block}_self_Wo_ln")
        x = normed(x + mlp(x, w, block), w, f"{block}_ffn_ffn_ln")
    y = embedded(target, w, begins_with_zero=True)
    for layer in range(1, DECODER + 1):
        block = f"decoder_l{layer}"
        y = normed(y + recurrent(y, w, f"{block}_rnn"), w, f"{block}_rnn_ffn_ln")
        y = normed(y + attention(y, x, w, f"{block}_context"), w, f"{block}_context_Wo_ln")
        y = normed(y + mlp(y, w, block), w, f"{block}_ffn_ffn_ln")
    return y @ w["Wemb"].T + w["decoder_ff_logit_out_b"]


def joined(
    model: MarianStudentModel, source: list[int], target: list[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    return model.join(torch.tensor([source]), torch.tensor([target]))


@torch.no_grad()
def test_it_computes_the_formulas(stored: tuple[Path, dict[str, Matrix]]) -> None:
    folder, values = stored
    for source in (folder, str(folder / "model.bin")):
        model = load_model(source)
        assert model.name == folder.name
        assert "dequantised from int8" in repr(model)
    model = load_model(folder, dtype=torch.float64)
    assert isinstance(model, MarianStudentModel)
    tokens, mask = joined(model, SOURCE, TARGET)
    logits = model(tokens, attention_mask=mask)[0, len(SOURCE) :]
    np.testing.assert_allclose(logits.numpy(), expected(SOURCE, TARGET, values), atol=1e-9)
    assert model.capabilities.probes["forward"].held


@torch.no_grad()
def test_padding_on_either_side_changes_nothing(model: MarianStudentModel) -> None:
    rows = [(SOURCE, TARGET), ([7, 8, 0], [0, 2]), ([6, 0], [0, 3, 9, 7, 8])]
    batch = [torch.cat(joined(model, *row)[:1], dim=1)[0] for row in rows]
    width = max(map(len, batch)) + 2
    alone = [model(row[None])[0] for row in batch]
    for left in (True, False):
        tokens, mask = torch.zeros(3, width, dtype=torch.long), torch.zeros(3, width).long()
        for n, row in enumerate(batch):
            place = slice(width - len(row), width) if left else slice(0, len(row))
            tokens[n, place], mask[n, place] = row, 1
        together = model(tokens, attention_mask=mask)
        for n, logits in enumerate(alone):
            real = together[n][mask[n].bool()][len(rows[n][0]) :]
            torch.testing.assert_close(real, logits[len(rows[n][0]) :], rtol=1e-4, atol=1e-4)


def test_sinusoids_have_the_whole_range_of_wavelengths() -> None:
    waves = sinusoids(torch.tensor([[0, 5]]), 6)[0]
    assert waves[0].tolist() == [0, 0, 0, 1, 1, 1]
    rates = [1.0, 0.01, 0.0001]
    assert waves[1].tolist() == pytest.approx(
        [*(math.sin(5 * rate) for rate in rates), *(math.cos(5 * rate) for rate in rates)]
    )


def test_the_pieces_end_a_text(model: MarianStudentModel) -> None:
    assert model.tokenizer("a unhappy dog").input_ids == [3, 4, 5, 6, 0]
    assert model.tokenizer.decode([9, 10, 11, 0], skip_special_tokens=True) == "um cão"
    assert list(model.start_ids) == [0]


@torch.no_grad()
def test_interventions_act_and_leave_nothing(model: MarianStudentModel) -> None:
    tokens, mask = joined(model, SOURCE, TARGET)
    clean = model(tokens, attention_mask=mask)
    n = len(SOURCE)

    def moved(block: Any, since: int = n) -> float:
        with block:
            out = model(tokens, attention_mask=mask)
        assert torch.equal(model(tokens, attention_mask=mask)[:, n:], clean[:, n:])
        return float((out - clean)[:, since:].abs().max())

    assert moved(mask_attention(model, keys=[1], layers=[0])) > 0
    assert moved(mask_attention(model, keys=[1], queries=[n + 1], layers=[ENCODER])) > 0
    assert moved(ablate(model, heads=[(ENCODER, 1)])) > 0
    assert moved(mask_residual(model, positions=[n], layers=[ENCODER])) > 0
    # The whole block passed over at the last position moves none of those before.
    with mask_residual(model, positions=[n + 3], layers=[ENCODER + DECODER - 1]):
        out = model(tokens, attention_mask=mask)
    assert torch.equal(out[:, n : n + 3], clean[:, n : n + 3])
    assert not torch.equal(out[:, n + 3], clean[:, n + 3])
    # What entered the block leaves it, where it is passed over.
    names = [f"decoder_blocks.1.hook_resid_{end}" for end in ("pre", "post")]
    with mask_residual(model, positions=[n + 2], layers=[ENCODER + 1]):
        _, seen = model.capture(tokens, names, attention_mask=mask)
    assert torch.equal(seen[names[0]][0, 2], seen[names[1]][0, 2])


@torch.no_grad()
def test_stacked_weights_are_refused_in_words(model: MarianStudentModel) -> None:
    with pytest.raises(CapabilityError, match=r"offers no stacked 'W_Q'; read it from model\.st"):
        model.weight("W_Q")


def test_the_recurrent_unit_reads_the_past_alone(model: MarianStudentModel) -> None:
    tokens, mask = joined(model, SOURCE, TARGET)
    other = tokens.clone()
    other[0, -1] = other[0, -1] - 4
    assert torch.equal(
        model(tokens, attention_mask=mask)[:, len(SOURCE) : -1],
        model(other, attention_mask=mask)[:, len(SOURCE) : -1],
    )
    cell = "decoder_blocks.0.rnn.hook_cell"
    with model.hooks([(cell, lambda c, hook: torch.zeros_like(c))]):
        edited = model(tokens, attention_mask=mask)
    assert not torch.equal(edited[:, -1], model(tokens, attention_mask=mask)[:, -1])


def test_target_tokens_are_no_keys(model: MarianStudentModel) -> None:
    tokens, mask = joined(model, SOURCE, TARGET)
    with (
        pytest.raises(InterventionError, match="position 6, a target token: .*recurrent unit"),
        mask_attention(model, keys=[1, len(SOURCE) + 1]),
    ):
        model(tokens, attention_mask=mask)
    examples = [Example("a unhappy dog", " cão", target="um")]
    with pytest.raises(InterventionError, match="begins its target with 'um'"):
        ablation_curve(model, examples, what="words", multi_token_answers=True)


def test_a_cap_curve_is_the_formulas_on_pooled_embeddings(
    stored: tuple[Path, dict[str, Matrix]],
) -> None:
    model, values = load_model(stored[0], dtype=torch.float64), stored[1]
    examples = [Example("a unhappy dog", "um cão"), Example("unhappy cats , a dog", " c")]
    curve = cap_curve(model, examples, multi_token_answers=True, controls=False, progress=False)
    assert set(curve.frame["layer"]) == set(range(ENCODER + DECODER))
    source, answer = model.tokenizer("a unhappy dog").input_ids, [9, 10, 11]
    assert source == [3, 4, 5, 6, 0]

    def logprob(units: Any) -> float:
        logits = expected(source, [0, *answer[:-1]], values, units)
        chosen = logits[range(3), answer]
        return float((chosen - np.log(np.exp(logits).sum(1))).sum())

    clean = curve.clean.set_index("example")["target_logprob"]
    pooled = curve.outcomes.set_index(["example", "layer", "pooling"])["target_logprob"]
    assert clean[0] == pytest.approx(logprob(None), abs=1e-5)
    by_hand = logprob([[0], [1, 2], [3], [4]])  # un·happy is one vector
    assert pooled[0, 0, "mean"] == pytest.approx(by_hand, abs=1e-5)
    assert abs(by_hand - clean[0]) > 1e-3


def test_the_audit_finds_nothing_and_words_can_be_knocked_out(model: MarianStudentModel) -> None:
    examples = [Example("a unhappy dog", "um cão"), Example("unhappy cats , a dog", " c")]
    words = ablation_curve(model, examples, multi_token_answers=True, progress=False)
    clean = words.clean.set_index("example")["target_logprob"]
    moved = words.outcomes["target_logprob"] - words.outcomes["example"].map(clean)
    # From the last layer on alone, the decoder's, cross-attention to a word is knocked out as well.
    last = words.outcomes["layer"] == ENCODER + DECODER - 1
    assert (moved[last].abs() > 1e-6).all()
    assert not len(audit(model, progress=False).findings)


# ---- files -------------------------------------------------------------------------------


def cut(folder: Path) -> None:
    file = folder / "model.bin"
    file.write_bytes(file.read_bytes()[:-700])


def longer(folder: Path) -> None:
    file = folder / "model.bin"
    file.write_bytes(file.read_bytes() + bytes(3))


def with_a_wild_length(folder: Path) -> None:
    data = bytearray((folder / "model.bin").read_bytes())
    data[16:24] = struct.pack("<Q", 2**62)
    (folder / "model.bin").write_bytes(data)


def with_nan(folder: Path) -> None:
    values = write(folder / "model.bin")
    number = values["decoder_l1_rnn_bf"].astype(np.float32).tobytes()[:4]
    data = (folder / "model.bin").read_bytes()
    assert data.count(number) == 1
    (folder / "model.bin").write_bytes(data.replace(number, struct.pack("<f", math.nan)))


def renamed(folder: Path) -> None:
    data = (folder / "model.bin").read_bytes()
    (folder / "model.bin").write_bytes(data.replace(b"encoder_l2_ffn_W1\0", b"encoder_l9_ffn_W1\0"))


def without_pieces(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def with_garbled_pieces(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")


def of_int16(folder: Path) -> None:
    data = (folder / "model.bin").read_bytes()
    (folder / "model.bin").write_bytes(
        data.replace(struct.pack("<Q", 0x4101), struct.pack("<Q", 0x4102), 1)
    )


def with_another_sum(folder: Path) -> None:
    (folder / "SHA256SUMS").write_text(f"{'0' * 64}  model.bin\n")


def with_two_vocabularies(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    for language in ("en", "pt"):
        (folder / f"vocab.{language}.spm").write_text(language)


def rewritten(**settings: Any) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        write(folder / "model.bin", **settings)

    damage.__name__ = "_".join(settings)
    return damage


BAD: dict[Any, tuple[type[InterpComposeError], str]] = {
    cut: (CorruptFileError, "is no whole Marian file .*is cut.*get it again"),
    longer: (CorruptFileError, "its tensors end at"),
    with_a_wild_length: (CorruptFileError, "is no whole Marian file"),
    with_nan: (CorruptFileError, "'decoder_l1_rnn_bf' in .* holds NaN or infinity"),
    renamed: (CorruptFileError, "lacks 'encoder_l2_ffn_W1'"),
    without_pieces: (CorruptFileError, "no tokenizer.json and no vocab….spm"),
    with_garbled_pieces: (CorruptFileError, "no pieces that can be read .*or pass tokenizer"),
    with_another_sum: (CorruptFileError, "model.bin"),
    with_two_vocabularies: (CapabilityError, r"several .*\(vocab.en.spm, vocab.pt.spm\)"),
    of_int16: (CapabilityError, "'Wemb' .*of the type 0x4102: expected float32 or int8"),
    rewritten(**{"dec-cell": "gru"}): (CapabilityError, "with dec-cell: 'gru', and .*'ssru'"),
    rewritten(**{"transformer-heads": 3}): (CorruptFileError, "n_heads=3"),
    rewritten(**{"enc-depth": 2}): (CorruptFileError, "holds 'encoder_l3_ffn_W1' .*no layer"),
    rewritten(**{"dim-vocabs": 5}): (CorruptFileError, "do not describe its model"),
    rewritten(**{"type": "[]["}): (CorruptFileError, "is no YAML"),
}


@pytest.mark.parametrize("damage", BAD, ids=lambda damage: damage.__name__)
def test_what_cannot_be_read_is_refused_by_name(
    damage: Any, stored: tuple[Path, dict[str, Matrix]], tmp_path: Path
) -> None:
    copy = tmp_path / "en-pt"
    shutil.copytree(stored[0], copy)
    damage(copy)
    kind, message = BAD[damage]
    with pytest.raises(kind, match=message):
        load_model(copy)


def test_options_of_other_formats_are_refused(
    stored: tuple[Path, dict[str, Matrix]], tmp_path: Path
) -> None:
    copy = tmp_path / "en-pt"
    shutil.copytree(stored[0], copy)
    with pytest.raises(OptionError, match="revision is Hugging Face's"):
        load_model(copy, revision="main")
    with pytest.raises(OptionError, match="device_map is Hugging Face's"):
        load_model(copy, device_map="auto")
    (copy / "a.bin").symlink_to(copy / "nowhere.bin")
    (copy / "b.bin").mkdir()
    assert isinstance(load_model(copy), MarianStudentModel)
    shutil.copy(copy / "model.bin", copy / "model2.bin")
    with pytest.raises(OptionError, match=r"several Marian files \(model.bin, model2.bin\)"):
        load_model(copy)
