"""How `model_cache/scdg-mini` was made: tokenizer, constructed start, training mixture, training loop."""
