"""One file per study: a frozen config dataclass, ``run(config)``, and the result it returns."""
