"""The study of evidence retention: gains as evidence is taken out of the context."""
