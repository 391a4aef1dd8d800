"""Measures of both jobs: pairs, plagdet on passages, rankings, intervals, and the tables that print them."""
