"""Count the steps of a regular expression: a matcher that backtracks as Python's own one, one character at a time.

Steps do not depend on the machine, so that a test can compare the work for texts of two sizes.
"""

import re
from collections.abc import Callable, Iterator
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

MAX_REPEATS = 5
"""Repetitions with a limit end here, so that short texts exceed it as long ones exceed the limit itself."""

Match = Callable[[str, int, dict[int, tuple[int, int]]], Iterator[int]]
"""Yields where matches at a place end, the preferred ones first."""


class StepCounter:
    """A pattern whose search counts its steps."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.steps = 0
        self._flags = flags
        tree = _parser.parse(pattern, flags)
        self._flags |= tree.state.flags
        self._match = self._sequence(list(tree))

    def count(self, text: str, is_anchored: bool = False) -> int:
        """Return the steps of finding all matches in a text, or one at its beginning and, failing that, all of it."""
        self.steps = 0
        if is_anchored:
            any(end == len(text) for end in self._match(text, 0, {}))
        else:
            self.find_all(text)
        return self.steps

    def find_all(self, text: str) -> list[tuple[int, int]]:
        """Return the places of all matches in a text, as `re.finditer` does."""
        places, place = list[tuple[int, int]](), 0
        while place <= len(text):
            end = next(self._match(text, place, {}), None)
            if end is not None:
                places.append((place, end))
            place = place + 1 if end is None or end == place else end
        return places

    def _sequence(self, nodes: list[Any]) -> Match:
        parts = [self._node(*node) for node in nodes]

        def match(text: str, place: int, groups: dict[int, tuple[int, int]]) -> Iterator[int]:
            stack = [iter((place,))]
            while stack:
                at = next(stack[-1], None)
                if at is None:
                    stack.pop()
                elif len(stack) > len(parts):
                    yield at
                else:
                    stack.append(parts[len(stack) - 1](text, at, groups))

        return match

    def _node(self, kind: Any, value: Any) -> Match:
        if kind in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            return self._single([(kind, value)])
        if kind is sre.BRANCH:
            return self._branch([self._sequence(list(branch)) for branch in value[1]])
        if kind is sre.SUBPATTERN:
            return self._group(value[0], self._sequence(list(value[3])))
        if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            least, most, inner = value
            most = None if most == sre.MAXREPEAT else min(most, MAX_REPEATS)
            return self._repeat(min(least, MAX_REPEATS), most, self._sequence(list(inner)), kind is sre.MIN_REPEAT)
        if kind in (sre.ASSERT, sre.ASSERT_NOT):
            return self._look(value[0], list(value[1]), kind is sre.ASSERT)
        if kind is sre.AT:
            return self._single([(kind, value)], width=0)
        if kind is sre.GROUPREF:
            return self._reference(value)
        raise NotImplementedError(kind)

    def _single(self, nodes: list[Any], width: int = 1) -> Match:
        pattern = _compile(nodes, self._flags)

        def match(text: str, place: int, _groups: dict[int, tuple[int, int]]) -> Iterator[int]:
            self.steps += 1
            if pattern.match(text, place):
                yield place + width

        return match

    def _branch(self, branches: list[Match]) -> Match:
        def match(text: str, place: int, groups: dict[int, tuple[int, int]]) -> Iterator[int]:
            for branch in branches:
                yield from branch(text, place, groups)

        return match

    def _group(self, number: int | None, inner: Match) -> Match:
        def match(text: str, place: int, groups: dict[int, tuple[int, int]]) -> Iterator[int]:
            for end in inner(text, place, groups):
                if number is not None:
                    groups[number] = place, end
                yield end

        return match

    def _repeat(self, least: int, most: int | None, inner: Match, is_lazy: bool) -> Match:
        def match(text: str, place: int, groups: dict[int, tuple[int, int]]) -> Iterator[int]:
            ends, stack = [place], [inner(text, place, groups)] if most != 0 else []
            if is_lazy and least == 0:
                yield place
            while ends:
                end = next(stack[-1], None) if len(stack) == len(ends) else None
                if end is not None and end != ends[-1]:
                    ends.append(end)
                    if is_lazy and len(ends) > least:
                        yield end
                    if most is None or len(ends) <= most:
                        stack.append(inner(text, end, groups))
                elif end is None:
                    if not is_lazy and len(ends) > least:
                        yield ends[-1]
                    if len(stack) == len(ends):
                        stack.pop()
                    ends.pop()

        return match

    def _look(self, direction: int, nodes: list[Any], is_positive: bool) -> Match:
        inner = self._sequence(nodes)
        width = _parser.SubPattern(_parser.State(), nodes).getwidth()[0] if direction < 0 else 0

        def match(text: str, place: int, groups: dict[int, tuple[int, int]]) -> Iterator[int]:
            is_found = place >= width and next(inner(text, place - width, groups), None) is not None
            if is_found == is_positive:
                yield place

        return match

    def _reference(self, number: int) -> Match:
        def match(text: str, place: int, groups: dict[int, tuple[int, int]]) -> Iterator[int]:
            self.steps += 1
            begin, end = groups.get(number, (0, -1))
            if end >= begin and text.startswith(text[begin:end], place):
                yield place + end - begin

        return match


def _compile(nodes: list[Any], flags: int) -> re.Pattern[str]:
    """Return the pattern of one node, compiled by Python."""
    from re import _compiler  # type: ignore[attr-defined]

    state = _parser.State()
    state.flags, state.str = flags & ~re.DEBUG, ""
    return _compiler.compile(_parser.SubPattern(state, nodes))  # type: ignore[no-any-return]


def list_literals(pattern: str, flags: int = 0) -> str:
    """Return the distinct characters that a pattern names, in order."""
    found = dict[str, None]()

    def walk(value: Any) -> None:
        if isinstance(value, tuple) and len(value) == 2 and value[0] in (sre.LITERAL, sre.NOT_LITERAL):
            found[chr(value[1])] = None
        elif isinstance(value, tuple | list | _parser.SubPattern):
            for inner in value:
                walk(inner)

    walk(_parser.parse(pattern, flags))
    return "".join(found)
