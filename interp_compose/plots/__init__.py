"""Figures drawn from tidy frames: interactive (plotly) and static (matplotlib)."""
