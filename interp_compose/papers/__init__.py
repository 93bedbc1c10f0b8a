"""What reproduces four papers, each in a folder of its own; the library loads without them.

``shared`` holds what several of them need: layers of small models, and runs of a grid.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submodules=("carma", "cat", "complexity", "lrf")
)
