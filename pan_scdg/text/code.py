"""Find the program code of a text: a listing is no prose, and listings of one task are alike whoever wrote them."""

import re

import numpy as np
import numpy.typing as npt

from pan_scdg.records import Span
from pan_scdg.text.lines import LINE, MAX_ENTRY_LENGTH, MAX_LABEL_WORDS, MIN_LINES

_CODE = re.compile(
    r"""\s*(?:
    [{}()\[\];,]+\s*(?://.*)?$                                         # opens or closes a block
    |\#\s?(?:include|define|ifdef|ifndef|endif|pragma)\b.*
    |import\ [\w.*]+(?:\ as\ \w+)?;?\s*$|from\ [\w.]+\ import\ .*|using\ [\w:. ]+;|package\ [\w.]+;
    |(?:async\ )?def\ \w+\(.*
    |(?:public\ |abstract\ |final\ |export\ )*(?:class|struct|interface|enum)\ \w+[^.]{0,60}?[{:(]?\s*$
    |(?:public|private|protected|else|try|finally|do|default|case\ [\w"']+)\s*[:{]\s*$
    |(?:if|for|while|switch|elif|else\ if|catch|except|with)\b.*[{:;)]\s*(?://.*|\#.*)?$
    |(?:SELECT|INSERT\ INTO|UPDATE|DELETE\ FROM|CREATE\ TABLE)\ .*
    |</?[a-zA-Z][\w-]*(?:\ [^<>]*)?/?>.*
    |(?:[\w<>*&:]+\ ){0,3}[\w.*&\[\]'"->]{1,60}\s*(?:[-+*/%|&^]|<<|>>)?=\s*[^\s=].*   # assigns
    |(?:[\w<>*&:]+\ ){0,4}[\w.:*&>-]{1,60}(?:\ ?\(.*\)\s*(?:const\s*)?[;{:\\]+|\(.*\))\s*(?://.*|\#.*|/\*.*)?$  # calls
    |(?:cout|cin|cerr)\s*(?:<<|>>).*
    |(?=.*[(){}=<>\[\]]).*[;{}]\s*(?://.*|/\*.*)?$
    |(?:return|break|continue|throw|int|char|float|double|bool|void|string|var|let|const|static|unsigned)\b[^.?!]*;\s*(?://.*)?$
    |(?:return\ [\w()\[\]+*/.-]+|break|continue|pass)\s*$
    )""",
    re.VERBOSE,
)


def find_code(text: str, words: npt.NDArray[np.int64]) -> list[Span]:
    """Return the listings of program code, in order; time is linear in the length of the text.

    A listing has `MIN_LINES` that are clearly code, and at most as many in a row that need not be.

    Args:
        text: the text.
        words: first character of each of its words, ``[w]``.
    """
    listings: list[Span] = []
    begin = end = count = between = 0
    for line in LINE.finditer(text):
        is_code = len(line[0]) <= MAX_ENTRY_LENGTH and _CODE.match(line[0]) is not None
        size = int(np.diff(np.searchsorted(words, line.span()))[0])
        if is_code:
            begin, end, count, between = (begin if count else line.start()), line.end(), count + 1, 0
        elif count and between < MIN_LINES and size <= MAX_LABEL_WORDS:
            between += 1
        else:
            if count >= MIN_LINES:
                listings.append(Span(begin, end))
            count = between = 0
    if count >= MIN_LINES:
        listings.append(Span(begin, end))
    return listings
