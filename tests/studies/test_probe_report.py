"""The report of a model's weights against singular values and cosines written out in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import torch

from interp_compose.errors import CapabilityError, NonFiniteError, OptionError
from interp_compose.models.lens_model import LensModel
from interp_compose.models.load import load_model
from interp_compose.studies.weights import measure as probe_measure
from interp_compose.studies.weights.measure import complexity_report, random_stable_rank
from interp_compose.studies.weights.result import MATRICES, ComplexityReport
from tests import architectures

Matrix = npt.NDArray[np.float64]
HIDDEN, HEADS, LAYERS = 40, 4, architectures.N_LAYERS


@pytest.fixture(scope="module")
def llama() -> LensModel:
    return load_model(architectures.build("Llama"))


@pytest.fixture(scope="module")
def report(llama: LensModel) -> ComplexityReport:
    return complexity_report(llama, progress=False)


def cell(report: ComplexityReport, layer: int, matrix: str, head: int = -1) -> dict[str, Any]:
    frame = report.frame
    found = frame[(frame["layer"] == layer) & (frame["matrix"] == matrix) & (frame["head"] == head)]
    assert len(found) == 1
    return dict(found.iloc[0])


def expected(weight: Matrix) -> dict[str, float]:
    """Every number of a row, from its formula."""
    values = np.linalg.svd(weight, compute_uv=False)
    shares = values / values.sum()
    entropy = float(-sum(p * math.log(p) for p in shares if p > 0))
    rows, cols = weight.shape
    alive = [row for row in weight if row.any()]  # the padding token's embedding is zero
    cosines = [
        abs(float(a @ b) / math.sqrt(float(a @ a) * float(b @ b)))
        for i, a in enumerate(alive)
        for b in alive[:i]
    ]
    return {
        "rows": rows,
        "cols": cols,
        "stable_rank": float((values**2).sum() / values[0] ** 2),
        "random_stable_rank": rows * cols / (math.sqrt(rows) + math.sqrt(cols)) ** 2,
        "effective_rank": math.exp(entropy),
        "spectral_entropy": entropy,
        "frobenius_norm": math.sqrt(float((weight**2).sum())),
        "mean_abs_cosine": float(np.mean(cosines)),
        "compared": rows,
    }


def greedy(weight: Matrix) -> list[int]:
    """Sizes of the groups: the first row left takes those whose cosine with it is above 0.4."""
    rows = [row / math.sqrt(float(row @ row)) for row in weight]
    sizes = []
    while rows:
        first = rows[0]
        left = [row for row in rows[1:] if float(row @ first) <= 0.4]
        sizes.append(len(rows) - len(left))
        rows = left
    return sizes


def hugging_faces(layer: int) -> Iterator[tuple[str, int, Matrix]]:
    """The weights of a layer as the clean model holds them: outputs are rows already."""
    source: Any = architectures.build("Llama").model.layers[layer]
    attention, mlp = source.self_attn, source.mlp
    linears = {
        "W_Q": attention.q_proj, "W_K": attention.k_proj, "W_V": attention.v_proj,
        "W_O": attention.o_proj, "W_in": mlp.up_proj, "W_gate": mlp.gate_proj,
        "W_out": mlp.down_proj,
    }  # fmt: skip
    for name, linear in linears.items():
        weight = linear.weight.detach().double().numpy()
        yield name, -1, weight
        if name in ("W_Q", "W_K", "W_V", "W_O"):
            along = 1 if name == "W_O" else 0
            for head, part in enumerate(np.split(weight, weight.shape[along] // 10, axis=along)):
                yield name, head, part


def test_every_number_of_a_layer(report: ComplexityReport) -> None:
    seen = 0
    for name, head, weight in hugging_faces(1):
        row = cell(report, 1, name, head)
        for column, value in expected(weight).items():
            assert row[column] == pytest.approx(value, rel=2e-4), (name, head, column)
        assert row["random_abs_cosine"] == pytest.approx(
            math.gamma(weight.shape[1] / 2)
            / (math.sqrt(math.pi) * math.gamma((weight.shape[1] + 1) / 2)),
            rel=1e-3,
        )
        sizes = greedy(weight)
        assert row["n_directions"] == sum(size > 1 for size in sizes), (name, head)
        assert row["largest_direction"] == max(sizes), (name, head)
        seen += 1
    assert seen == (report.frame["layer"] == 1).sum() == 7 + 2 * HEADS + 2 * 2


def test_the_ends_and_the_order_of_the_rows(report: ComplexityReport) -> None:
    source: Any = architectures.build("Llama")
    ends = {(-1, "W_E"): source.model.embed_tokens.weight, (LAYERS, "W_U"): source.lm_head.weight}
    for (layer, name), weight in ends.items():
        row = cell(report, layer, name)
        values = expected(weight.detach().double().numpy())
        for column, value in values.items():
            assert row[column] == pytest.approx(value, rel=2e-4)
        assert row["tied_to"] == ""
    assert report.frame["layer"].is_monotonic_increasing
    assert list(report.frame.columns) == list(MATRICES.columns)
    assert list(report.merged["matrix"])[:4] == ["W_E", "W_Q", "W_K", "W_V"]
    assert len(report.merged) + len(report.heads) == len(report.frame)


def test_a_tied_unembedding_is_told_and_not_measured_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured: list[str] = []
    plain = probe_measure._rows
    monkeypatch.setattr(
        probe_measure, "_rows", lambda m, heads: (measured.append(m.name), plain(m, heads))[1]
    )
    found = complexity_report(load_model(architectures.build("GPT-2")), progress=False)
    assert measured.count("W_E") == 1
    assert "W_U" not in measured
    ours = ["layer", "matrix", "tied_to"]
    one, other = cell(found, LAYERS, "W_U"), cell(found, -1, "W_E")
    assert one["tied_to"] == "W_E"
    assert {k: v for k, v in one.items() if k not in ours} == {
        k: v for k, v in other.items() if k not in ours
    }
    assert "W_U" in found.summary()
    assert "it is W_E" in found.summary()


def test_heads_can_be_left_out(llama: LensModel, report: ComplexityReport) -> None:
    merged = complexity_report(llama, heads=False, progress=False)
    assert merged.heads.empty
    pd.testing.assert_frame_equal(merged.frame, report.merged)
    assert merged.config["heads"] is False


def test_a_large_table_is_compared_by_evenly_spaced_rows(
    llama: LensModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_measure, "COMPARED", 31)
    found = complexity_report(llama, heads=False, progress=False)
    weight = architectures.build("Llama").model.embed_tokens.weight.detach().double().numpy()
    some = weight[[i * 97 // 31 for i in range(31)]]
    row = cell(found, -1, "W_E")
    assert row["compared"] == 31
    assert row["rows"] == 97
    assert row["mean_abs_cosine"] == pytest.approx(expected(some)["mean_abs_cosine"], rel=1e-4)
    assert row["stable_rank"] == pytest.approx(expected(weight)["stable_rank"], rel=1e-4)
    assert cell(found, 1, "W_in")["compared"] == 53  # neurons are compared all


@pytest.mark.parametrize("name", ["GPT-2", "Qwen2", "Gemma", "GPT-NeoX", "Phi-3", "BERT", "native"])
def test_other_architectures(name: str) -> None:
    source = architectures.build_native() if name == "native" else architectures.build(name)
    found = complexity_report(load_model(source), progress=False)
    merged = found.merged
    smaller = merged[["rows", "cols"]].min(axis=1)
    assert (merged["stable_rank"] <= merged["effective_rank"] * 1.0001).all()
    assert (merged["effective_rank"] <= smaller * 1.0001).all()
    assert merged["stable_rank"].between(1, smaller).all()
    assert ("W_gate" in set(merged["matrix"])) == (name in ("Qwen2", "Gemma", "Phi-3"))
    assert set(merged["layer"]) == set(range(-1, LAYERS + 1))
    if name == "BERT":
        assert "left out: bert.embeddings.token_type_embeddings.weight" in found.summary()


def test_half_precision_is_measured_in_float32(llama: LensModel) -> None:
    half = load_model(architectures.build("Llama").bfloat16())
    rounded = load_model(architectures.build("Llama").bfloat16().float())
    one = complexity_report(half, progress=False).frame
    other = complexity_report(rounded, progress=False).frame
    pd.testing.assert_frame_equal(one, other, rtol=1e-6)
    assert next(half.parameters()).dtype == torch.bfloat16


def test_a_zero_matrix_has_no_rank_and_stops_nothing() -> None:
    model = load_model(architectures.build("Llama"))
    with torch.no_grad():
        model.lens.blocks[1].attn.o.weight.zero_()
    row = cell(complexity_report(model, progress=False), 1, "W_O")
    assert row["stable_rank"] == row["effective_rank"] == row["frobenius_norm"] == 0
    assert math.isnan(row["mean_abs_cosine"])
    assert row["n_directions"] == row["largest_direction"] == 0


def test_neither_mode_nor_hooks_nor_gradients_matter(
    llama: LensModel, report: ComplexityReport
) -> None:
    llama.train()
    try:
        with llama.open_blocks.around(lambda inner, tokens, mask, read: inner(tokens, mask, read)):
            again = complexity_report(llama, progress=False)
    finally:
        llama.eval()
    pd.testing.assert_frame_equal(again.frame, report.frame)
    assert again.config == report.config


def test_gaussian_matrices_come_near_the_reference() -> None:
    torch.manual_seed(0)
    for shape in ((300, 300), (600, 150), (150, 600)):
        values = np.linalg.svd(torch.randn(shape).double().numpy(), compute_uv=False)
        found = (values**2).sum() / values[0] ** 2
        assert random_stable_rank(*shape) == pytest.approx(found, rel=0.05)


# ---- as a result -------------------------------------------------------------------------------


def test_what_was_measured_is_on_record(llama: LensModel, report: ComplexityReport) -> None:
    assert report.config["model"] == llama.name
    assert report.config["n_layers"] == LAYERS
    assert report.config["left_out"] == []
    other = load_model(architectures.build("Llama", seed=1))
    assert (
        complexity_report(other, heads=False, progress=False).config["weights_sha256"]
        != report.config["weights_sha256"]
    )


def test_the_figure_holds_the_numbers(report: ComplexityReport) -> None:
    chart: Any = report.plot().chart
    assert list(chart.columns) == ["0", "1", "2"]
    assert list(chart.rows) == ["W_Q", "W_K", "W_V", "W_O", "W_in", "W_gate", "W_out"]
    for i, name in enumerate(chart.rows):
        for layer in range(LAYERS):
            row = cell(report, layer, name)
            assert chart.values[i][layer] == row["stable_rank"] / row["random_stable_rank"]
            assert chart.hover[i][layer].startswith(f"{row['rows']} × {row['cols']}; ")
    tokens = cell(report, -1, "W_E")
    assert f"W_E {tokens['stable_rank'] / tokens['random_stable_rank']:.2f}" in chart.subtitle


def test_an_unknown_measure(report: ComplexityReport) -> None:
    with pytest.raises(OptionError, match="unknown measure 'rank': expected one of stable_rank"):
        report.plot("rank")


def test_the_summary_is_a_table(report: ComplexityReport) -> None:
    lines = report.summary().splitlines()
    assert lines[:2] == [report.sentences()[0], ""]
    lines = lines[2:]
    assert lines[2].split() == ["layer", "W_Q", "W_K", "W_V", "W_O", "W_in", "W_gate", "W_out"]
    assert lines[4].split()[1] == f"{cell(report, 1, 'W_Q')['stable_rank']:.2f}"
    assert lines[6].split()[0] == "random"
    assert any(line.startswith("W_E: ") for line in lines)


# ---- refused -----------------------------------------------------------------------------------


def test_a_broken_weight_is_named() -> None:
    model = load_model(architectures.build("Llama"))
    with torch.no_grad():
        model.lens.blocks[2].attn.v.weight[3, 5] = math.nan
    with pytest.raises(NonFiniteError, match="W_V of layer 2 has NaN or infinite entries"):
        complexity_report(model, progress=False)


def test_a_quantised_model_is_refused_before_work() -> None:
    model = load_model(architectures.build("Llama"))
    linear: Any = model.lens.blocks[0].attn.q.original_component
    linear.weight = torch.nn.Parameter(linear.weight.to(torch.int8), requires_grad=False)
    with pytest.raises(CapabilityError, match=r"q_proj\.weight is quantised \(int8\)"):
        complexity_report(model, progress=False)


def test_the_bar_can_be_turned_off(llama: LensModel, capsys: pytest.CaptureFixture[str]) -> None:
    complexity_report(llama, heads=False, progress=False)
    assert capsys.readouterr() == ("", "")
    complexity_report(llama, heads=False)
    assert "weights of" in capsys.readouterr().err


def test_a_report_names_the_extremes_of_a_random_matrixs_share(report: ComplexityReport) -> None:
    """Embeddings are of no layer."""
    said = report.sentences()[0]
    rows = report.merged.to_dict("records")
    shares = [row["stable_rank"] / row["random_stable_rank"] for row in rows]
    for at in (int(np.argmin(shares)), int(np.argmax(shares))):
        row = rows[at]
        layer = f" of layer {row['layer']}" if 0 <= row["layer"] < LAYERS else ""
        ranks = f"{row['stable_rank']:.2f} of {row['random_stable_rank']:.2f}"
        assert f"share has {row['matrix']}{layer}, {ranks}" in said


def test_its_text_has_the_mean_stable_rank(report: ComplexityReport) -> None:
    inside = [
        cell(report, layer, matrix)
        for layer in range(LAYERS)
        for matrix in ("W_Q", "W_K", "W_V", "W_O", "W_in", "W_gate", "W_out")
    ]
    mean = sum(row["stable_rank"] for row in inside) / len(inside)
    expected = f"{LAYERS} layers · {len(inside)} matrices with a mean stable rank of {mean:.2f}, of"
    assert expected in repr(report)
