"""Training: a task alone, or with CARMA on the residual streams."""
