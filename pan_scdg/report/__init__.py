"""Reports to read: one HTML file, a table, and the passages behind each verdict."""
