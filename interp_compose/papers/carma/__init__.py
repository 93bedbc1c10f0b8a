"""CARMA: Enhanced Compositionality in LLMs via Advanced Regularisation and Mutual Information
Alignment (anonymous ACL submission).

What is compared: a model as it is, fine-tuned, and fine-tuned with the two losses more, over seeds,
by CAP curves and robustness to synonyms. The losses themselves are the library's
(:mod:`interp_compose.training.losses`, eqs. 1 to 4), and so are :func:`interp_compose.cap_curve`
and :func:`interp_compose.finetune`.

Read in this order: ``plan.py`` (what is trained and measured), ``run.py`` (one version of one
seed), ``synonyms/replace.py`` (words exchanged for synonyms), ``tables.py`` and ``differences.py``
(what is compared), ``verdicts.py`` (each claim of the paper).

The public names are those of ``__init__.pyi``, and are imported when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
