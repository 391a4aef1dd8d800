"""Which lines of some modules are run: few enough that ``sys.settrace`` will do, and no further package is needed."""

import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

Lines = dict[str, set[int]]


class Tracer:
    """Notes the lines that are run, by file; use it as a context manager.

    Args:
        files: the full names of the source files that count.
    """

    def __init__(self, files: frozenset[str]) -> None:
        self.lines: Lines = {file: set() for file in files}

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename in self.lines else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        self.lines[frame.f_code.co_filename].add(frame.f_lineno)
        return self._line

    def __enter__(self) -> "Tracer":
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)


def lines_of_functions(file: str) -> set[int]:
    """The lines of a source file that are run when its functions are, and not when it is imported."""
    with open(file, encoding="utf-8") as source:
        module = compile(source.read(), file, "exec")
    return {line for code in _functions(module) for line in _lines(code)}


def _functions(code: CodeType) -> Iterator[CodeType]:
    for inner in (constant for constant in code.co_consts if isinstance(constant, CodeType)):
        if inner.co_flags & 0x2 or inner.co_name.startswith("<"):  # a function; the body of a class has no fast locals
            yield inner
        yield from _functions(inner)


def _lines(code: CodeType) -> set[int]:
    """Those of the code behind its first, where the function is defined."""
    found = {line for _, _, line in code.co_lines() if line is not None}
    return found - {code.co_firstlineno} if len(found) > 1 else found
