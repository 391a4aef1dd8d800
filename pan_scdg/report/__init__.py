"""Reports to read: one HTML file, a table, and the passages that explain each decision."""
