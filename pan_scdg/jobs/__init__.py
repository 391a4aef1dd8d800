"""The jobs of the command line, from the input to the output directory."""
