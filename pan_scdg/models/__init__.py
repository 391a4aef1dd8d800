"""Find, fetch, verify and load models: checkpoint folders, devices and memory."""
