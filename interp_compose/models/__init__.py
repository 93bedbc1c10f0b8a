"""Models: every source becomes a :class:`~interp_compose.types.HookedModel`."""
