"""What rigs and benchmarks write for people."""

import textwrap

COLUMNS = 120


def page_text(lines: list[str]) -> str:
    """Sentences at 120 columns; tables, pictures and commands as they are."""
    whole = ("|", "!", "Command: ")
    wrapped = []
    for line in lines:
        indent = "  " if line.startswith("- ") else ""
        text = textwrap.wrap(line, COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        wrapped += [line] if line.startswith(whole) or not text else text
    return "\n".join(wrapped)
