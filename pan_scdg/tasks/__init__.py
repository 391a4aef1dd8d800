"""The two jobs and the tools around them, start to end: the only room that knows the whole way."""
