"""The folder in which a study reports: its page and its tables."""
