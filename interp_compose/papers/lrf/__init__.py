"""LRF: Zheng et al., Layer-Wise Representation Fusion for Compositional Generalization (AAAI 2024).

What is reproduced: encoder–decoders whose layers attend to all earlier layers' outputs, beside
controls, on SCAN, COGS, CFQ and CoGnition.

Read in this order: ``models/seq2seq.py`` (``FuseAttention``, eqs. 9 and 10), ``tasks/`` (the data),
``studies/generalise/measure.py`` (the grid, and one training), ``models/decode.py`` (beam search),
``studies/fusion/`` (what layers read, probes of syntax and of words).

The public names are those of ``__init__.pyi``, and are imported when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
