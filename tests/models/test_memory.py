"""The digest of a model's weights, and of the settings with which they are used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from interp_compose.models.load import load_model
from interp_compose.models.memory import weights_digest
from tests import architectures
from tests.models.test_load_encoder import bert, rewrite, saved


def gpt2(**options: Any) -> Any:
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(**{**architectures._GPT2, **options})
    return transformers.GPT2LMHeadModel(config).eval()


@pytest.mark.parametrize(
    ("build", "setting"),
    [
        (bert, {"hidden_act": "relu"}),
        (bert, {"layer_norm_eps": 1e-5}),
        (bert, {"num_attention_heads": 2}),
        (gpt2, {"activation_function": "relu"}),
        (gpt2, {"layer_norm_epsilon": 1e-4}),
        (gpt2, {"n_head": 2}),
    ],
)
def test_the_digest_knows_settings_that_no_weight_shows(
    build: Any, setting: dict[str, Any]
) -> None:
    plain, other = load_model(build()), load_model(build(**setting))
    pairs = zip(plain.parameters(), other.parameters(), strict=True)
    assert all(torch.equal(one, two) for one, two in pairs)
    assert weights_digest(plain) != weights_digest(other)
    assert weights_digest(plain) == weights_digest(load_model(build()))


@pytest.mark.parametrize("build", [bert, gpt2])
def test_the_digest_knows_no_names(build: Any) -> None:
    named = build()
    named.config._name_or_path = "/somewhere/else"
    assert weights_digest(load_model(named)) == weights_digest(load_model(build()))


def test_the_digest_does_not_depend_on_the_folder(tmp_path: Path) -> None:
    one = weights_digest(load_model(saved(tmp_path / "one", bert())))
    assert one == weights_digest(load_model(saved(tmp_path / "other", bert())))
    rewrite(tmp_path / "other" / "config.json", hidden_act="relu")
    assert one != weights_digest(load_model(tmp_path / "other"))


def test_a_weight_without_axes_is_part_of_the_digest() -> None:
    """As those of an activation function in Apertus are."""
    model = architectures.load("small, pre")
    plain = weights_digest(model)
    gain = torch.nn.Parameter(torch.tensor(1.0))
    model.lens.register_parameter("gain", gain)
    one = weights_digest(model)
    with torch.no_grad():
        gain += 1.0
    assert len({plain, one, weights_digest(model)}) == 3
