"""CAT: Huang et al., Towards Equipping Transformer with the Ability of Systematic Compositionality
(AAAI 2024).

What is reproduced: an encoder that decomposes a representation into codes and composes it again,
pre-trained beside BERT; what its codes name, and how it is fine-tuned.

Read in this order: ``models/composition.py`` (codes, eqs. 2 and 3), ``models/bert.py`` (the
encoder), ``training/pretraining.py`` (each loss with its equation), ``studies/pretrain/measure.py``
(one training), ``encoders/`` (tasks of GLUE, SQuAD, pairs), ``codes/`` (sememes of codes).

The public names are those of ``__init__.pyi``, and are imported when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
