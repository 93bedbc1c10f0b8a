"""CARMA's settings (section 3.2 and appendix B.3) and its total loss (eqs 6–8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from jaxtyping import Float, Int
from torch import Tensor

from interp_compose._public import public
from interp_compose.errors import LayerError, OptionError
from interp_compose.text.units import Unit
from interp_compose.training.losses import check_sampling, mutual_information_loss, stability_loss
from interp_compose.training.paper_settings import PaperTask, paper_settings

MOST_LAYERS: Final = 10_000


@public
@dataclass(frozen=True)
class CarmaConfig:
    """Where CARMA acts, how strongly, and on which units.

    Layer k is the residual that enters block k: the paper's f^(k), the output of its k-th layer
    counted from 1. Stability at layer k compares k with k + 1; for the last layer of the model
    that is what leaves the last block. The defaults of λ, γ and η are the authors' code's.

    Raises:
        OptionError: a weight outside [0, 1], a temperature that is not above 0, or unknown
            negatives or unit.
        LayerError: layers reversed or below 1 (the paper's 0 < l).
    """

    weight: float = 0.2
    """λ of eq. 8: CARMA's share in the total loss."""
    mi_weight: float = 0.2
    """γ of eq. 7."""
    stability_weight: float = 0.3
    """η of eq. 7."""
    layers: tuple[int, int] | None = None
    """First and last layer (l and K), both included; None: :func:`default_layers`."""
    stability_layers: tuple[int, int] | None = None
    """The same for stability alone; None: as ``layers``."""
    temperature: float = 0.1
    """τ, which divides the cosines."""
    negatives: Literal["all"] | int = "all"
    """All tokens of a text's other words, or how many to draw for each anchor."""
    unit: Unit = "word"
    """The unit whose tokens are each other's positives."""

    def __post_init__(self) -> None:
        for name in ("weight", "mi_weight", "stability_weight"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise OptionError(
                    f"{name}={value!r}: expected a number between 0 and 1 (eqs 7 and 8)"
                )
        check_sampling(self.temperature, self.negatives)
        for name, usual in (("temperature", 0.1), ("negatives", "all")):
            if self.mi_weight == 0 and getattr(self, name) != usual:
                raise OptionError(
                    f"{name}={getattr(self, name)!r} has no meaning for mi_weight=0: leave it out"
                )
        for name in ("layers", "stability_layers"):
            first, last = getattr(self, name) or (1, 1)
            if not 1 <= first <= last:
                raise LayerError(
                    f"{name}={(first, last)}: expected 1 ≤ first ≤ last (layer 0 is the "
                    "embeddings, below the paper's 0 < l)"
                )

    def resolved(self, n_layers: int) -> CarmaConfig:
        """The same with both ranges of layers stated, for a model of ``n_layers``.

        Raises:
            LayerError: layers outside 1 … n_layers-1, or a model of a single layer.
        """
        if not 2 <= n_layers <= MOST_LAYERS:
            raise LayerError(
                f"the model has n_layers={n_layers}, and CARMA acts on layers 1 … n_layers-1; "
                f"expected a model of 2 to {MOST_LAYERS} layers"
            )
        layers = self.layers or default_layers(n_layers)
        stability = self.stability_layers or layers
        for name, (_, last) in (("layers", layers), ("stability_layers", stability)):
            if last > n_layers - 1:
                raise LayerError(
                    f"{name} end at {last}, outside the model: expected layers within "
                    f"1 … {n_layers - 1}, or None for about a third of the depth"
                )
        return replace(self, layers=layers, stability_layers=stability)

    def captured_layers(self, n_layers: int) -> list[int]:
        """Layers that :func:`carma_terms` reads, in ascending order; the index ``n_layers``,
        which is what leaves the last block, may be among them.

        Raises:
            LayerError: as :meth:`resolved`.
        """
        mi, stability = _ranges(self.resolved(n_layers))
        return sorted({*mi, *stability, stability[-1] + 1})

    def hook_names(self, n_layers: int) -> list[str]:
        """The hook of each of :meth:`captured_layers`, in the same order.

        Raises:
            LayerError: as :meth:`resolved`.
        """
        leaves = f"blocks.{n_layers - 1}.hook_resid_post"
        return [
            f"blocks.{layer}.hook_resid_pre" if layer < n_layers else leaves
            for layer in self.captured_layers(n_layers)
        ]

    @classmethod
    def from_paper(cls, model: str, task: PaperTask) -> CarmaConfig:
        """The settings of appendix B.3 for one of the paper's models, by hub name or label.

        The paper gives λ and the layer at which CARMA ends. Ours are: the range begins at layer 1,
        the lowest that 0 < l allows; γ and η are the authors' code's.

        Raises:
            OptionError: a model or a task that the paper does not have.
        """
        stated = paper_settings(model, task)
        same = stated.stability_end == stated.mi_end
        return cls(
            weight=stated.weight,
            layers=(1, stated.mi_end),
            stability_layers=None if same else (1, stated.stability_end),
        )


def default_layers(n_layers: int) -> tuple[int, int]:
    """First and last layer about a third of the way up: 3–4 of 12, 6–10 of 24 (section 3.2).

    Between and beyond the paper's two recommendations both ends are linear in the depth.
    """
    first = max(1, n_layers // 4)  # 12 -> 3, 24 -> 6
    return first, max(first, n_layers // 2 - 2)  # 12 -> 4, 24 -> 10


def carma_terms(
    resid: Mapping[int, Float[Tensor, "batch pos d_model"]],
    word_ids: Int[Tensor, "batch pos"],
    config: CarmaConfig,
    *,
    seed: int,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Mutual-information and stability loss of a resolved config, on residuals by layer number.

    ``word_ids`` as for :func:`.losses.mutual_information_loss`; stability takes every
    token that has one of 0 or more. ``seed`` draws the negatives, where they are drawn.

    Raises:
        LayerError: a layer that was not captured, or a config that does not state its layers.
    """
    mi, stability = _ranges(config)
    pairs = range(stability.start, stability.stop + 1)  # k + 1 of the last k as well
    missing = sorted({*mi, *pairs} - set(resid))
    if missing:
        raise LayerError(
            f"no residual of layer {missing[0]} among {sorted(resid)}; capture what "
            "config.hook_names(n_layers) lists"
        )
    return (
        mutual_information_loss(
            [resid[layer] for layer in mi],
            word_ids,
            temperature=config.temperature,
            negatives=config.negatives,
            seed=seed,
        ),
        stability_loss([resid[layer] for layer in pairs], word_ids >= 0),
    )


def total_loss(
    task: Float[Tensor, ""],
    mi: Float[Tensor, ""],
    stability: Float[Tensor, ""],
    config: CarmaConfig,
) -> Float[Tensor, ""]:
    """(1 − λ) · task + λ · (γ · MI + η · stability)   (eqs 7 and 8)."""
    carma = config.mi_weight * mi + config.stability_weight * stability  # eq. 7
    return (1 - config.weight) * task + config.weight * carma  # eq. 8


def _ranges(config: CarmaConfig) -> tuple[range, range]:
    """Layers of mutual information and of stability, as a resolved config states them."""
    if config.layers is None or config.stability_layers is None:
        raise LayerError(
            f"layers={config.layers} and stability_layers={config.stability_layers}: expected "
            "both stated; call config.resolved(n_layers) first"
        )
    (first, last), (low, high) = config.layers, config.stability_layers
    return range(first, last + 1), range(low, high + 1)
