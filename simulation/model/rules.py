"""Rules that can be switched off in the model. Names as in ``simulation.rules`` where it has them."""
