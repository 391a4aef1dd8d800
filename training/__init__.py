"""Train `model_cache/scdg-mini`: tokenizer, constructed start, training mixture, training loop."""
