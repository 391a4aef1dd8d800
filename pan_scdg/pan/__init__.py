"""The official formats, in and out. Knows no model."""
