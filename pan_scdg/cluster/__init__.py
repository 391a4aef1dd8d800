"""Compute with several devices, on this machine or on many: Ray starts a process for each and sends it tasks."""
