"""Which passages of a target come from which passages of a source."""
