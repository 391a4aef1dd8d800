"""Train the bundled models: scdg-mini (tokenizer, constructed start, mixture, loop) and reuse-minilm (`encoder`)."""
