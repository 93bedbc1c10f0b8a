"""What can be asked of diffusion models on concept graphs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from interp_compose._public import public
from interp_compose.papers.shared.grid.options import Looks
from interp_compose.studies.core.options import GridOptions, Output, Part
from interp_compose.training.config import Steps


@public
@dataclass(frozen=True, kw_only=True)
class ImageTraining(Looks, Steps, epochs=10, lr=2e-3, warmup_steps=100, n_looks=10):
    """What every run has in common: images, U-Net, training by Adam at a rate that falls linearly
    to 0, and sampling."""

    pixels: Literal[28, 64] = 28
    """Of an image's side."""
    samples: int = 5000
    """Training images, as many of each training node."""
    channels: tuple[int, ...] = (16, 32, 32)
    """Of each level of the U-Net; each but the first has half the pixels of the one before."""
    distribution: Literal["uniform", "normal"] = "uniform"
    """Of the initial weights and biases: between -fan_in^-γ and fan_in^-γ, or of that deviation."""
    batch_size: int = 16
    """Images per step."""
    predicts: Literal["noise", "velocity"] = "velocity"
    """What the U-Net is trained to predict. The paper's predict the noise, with which small models
    need many more steps until they get colours right."""
    n_steps: int = 500
    """Of the forward process, β from 1e-4 to 0.02."""
    sample_steps: int = 25
    """Of DDIM, in which an image is generated."""
    n_images: int = 50
    """Images of each node that are generated and judged."""
    n_curve: int = 10
    """Images of each node that are generated and judged at each point of the learning curve."""


@dataclass(frozen=True, kw_only=True)
class ConceptGraphsCommand:
    """Does a small initialisation make a conditional diffusion model compose concepts that it has
    not seen together (complexity control, section VII, Fig. 6)? A run of the default takes about
    6 min of a core. `interp-compose phases --task concept-graphs` is the same."""

    gammas: str = "0.3,0.4,0.5,0.6,0.7"
    """Init rates: from:to:step, or a list by commas."""
    train_nodes: str = "paper"
    """Nodes to train on: paper, code (the same images), or nodes by commas, such as
    000,100,001,111. The bits are shape (circle, triangle), size (large, small) and colour (red,
    blue)."""
    paper: bool = False
    """Take the released code's setting as the defaults of all other options; docs/concept-graphs.md
    says what differs. It is for a GPU."""
    grid: Part[GridOptions] = field(default_factory=GridOptions)
    run: Part[ImageTraining] = field(default_factory=ImageTraining)
    output: Part[Output] = field(default_factory=Output)

    def preset(self) -> str | None:
        """The file of the released code's setting, where it is asked for."""
        return "concept_graphs" if self.paper else None
