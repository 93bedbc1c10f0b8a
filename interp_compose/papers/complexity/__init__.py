"""Complexity control: Zhang et al., Complexity Control Facilitates Reasoning-Based Compositional
Generalization in Transformers (2025, arXiv:2501.08537).

What is reproduced: small decoders trained at an init rate γ and a weight decay, on anchor functions
(phases 1 to 3), on sequences, on text, and a diffusion model on images.

Read in this order: ``tasks/anchors.py`` (the data, eq. 1), ``models/init.py`` (γ, section III-E),
then in ``studies/``: ``anchors/run.py`` (one training), ``anchors/phase.py`` (which phase it is),
``phases/measure.py`` (the grid), ``mechanism/`` (masked circuits, condensation), ``fitting_speed/``
(section VIII), ``task_phases/`` (SCAN, COGS, addition, proofs; VII), ``text_phases/`` and
``concept_graphs/`` (Fig. 6).

The public names are those of ``__init__.pyi``, and are imported when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
