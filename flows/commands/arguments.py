"""What the command line takes as a value. Imports only the standard library, as the command line does."""

from __future__ import annotations

from argparse import ArgumentTypeError

LAST_PORT = 65_535


def path_or_uri(text: str) -> str:
    """Return the path or URI ``text``; of inputs, one that is not UTF-8 is refused for itself, later."""
    if not text:
        raise ArgumentTypeError("is empty: give a path or a URI")
    return text


def utf8_path_or_uri(text: str) -> str:
    """Return the path or URI ``text`` if a server takes it as a parameter."""
    if any("\udc80" <= character <= "\udcff" for character in text):  # how Python holds bytes that are not UTF-8
        raise ArgumentTypeError(f"{text!a} is not UTF-8 (shown escaped): rename the folder")
    return path_or_uri(text)


def port(text: str) -> int:
    """Return the number of a port."""
    if not text.isdecimal() or not 0 < int(text) <= LAST_PORT:
        raise ArgumentTypeError(f"{text} is no port: give 1 to {LAST_PORT}")
    return int(text)


def at_least_one(text: str) -> int:
    """Return a number of things of which there must be one."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text}: give 1 or more")
    return int(text)
