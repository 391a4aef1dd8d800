"""Lines of a text: where they are, how long they are in prose, and how many make a list, a table or a listing."""

import re

LINE = re.compile(r"^[^\S\n]*\S[^\n]*", re.MULTILINE)
"""A line with a character that is seen."""
MIN_LINES = 3
"""Lines of one form in a row that are a list, a table, a listing, a title page, or numbered headings."""
MOST_LINES = 0.75
"""Share of the lines of verse or of a menu that have its form."""
MAX_ENTRY_LENGTH = 400
"""Characters of an entry of a list, a row of a table, or a line of code; a longer line is a paragraph."""
MAX_WRAPPED_LENGTH = 100
"""Characters of a line of hard-wrapped text; a longer one is a whole paragraph."""
MAX_HEADING_LENGTH = 80
"""Characters of a bare heading."""
MAX_LABEL_WORDS, MAX_ITEM_WORDS = 12, 7
"""Words of a line that is no sentence, such as a heading or a comment in code, and of an item of a list; a longer
one is a sentence without its end mark."""
MIN_PROSE_LENGTH = 60
"""Characters of a line within a paragraph of prose; headings without a blank line, and verses, are shorter."""
