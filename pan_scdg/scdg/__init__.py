"""The method: NumPy arrays in, NumPy arrays out. Imports no torch."""
