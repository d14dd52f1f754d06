"""Reads signatures of C++ and of pybind's texts."""


def arguments_of(text: str) -> list[str]:
    """What stands between the commas up to the parenthesis that closes what `text` continues."""
    arguments, depth = [""], 0
    for character in text:
        depth += (character in "([{<") - (character in ")]}>")
        if depth < 0:
            break
        if character == "," and depth == 0:
            arguments.append("")
        else:
            arguments[-1] += character
    return [argument.strip() for argument in arguments if argument.strip()]
