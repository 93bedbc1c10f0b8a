"""What several papers need: layers of small models, training on sequences, runs of a grid."""
