"""Find, fetch and load models, and choose the devices that they run on."""
