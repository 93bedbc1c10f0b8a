"""Models: every source becomes a :class:`.lens_model.LensModel`."""
