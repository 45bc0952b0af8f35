"""A test on the terminal: questions out, answers in, one line each."""

from __future__ import annotations

from typing import TextIO

from workingpapers.evaluation.adaptive_testing.session import Session
from workingpapers.evaluation.adaptive_testing.tables import About

RIGHT, WRONG, QUIT = ("1", "r", "right", "y", "yes"), ("0", "w", "wrong", "n", "no"), ("q", "quit")


def converse(session: Session, about: About, answers: TextIO, screen: TextIO) -> None:
    """Carry one examinee through the test.

    Args:
        session: The session.
        about: Texts of the items, shown beside their names.
        answers: Where answers come from; its end ends the test.
        screen: Where questions go.
    """
    print("Answer 1 (right) or 0 (wrong), q to stop.", file=screen)
    while (item := session.next_item()) is not None:
        text = about.text.get(item, "")
        print(f"{len(session.answers) + 1}. {item}{': ' + text if text else ''}", file=screen, flush=True)
        answer = _read(answers, screen)
        if answer is None:
            break
        session.answer(item, answer)
        abilities = ", ".join(
            f"{value:+.2f} ± {error:.2f}" for value, error in zip(session.theta, session.error, strict=True)
        )
        print(f"   ability {abilities}", file=screen, flush=True)


def _read(answers: TextIO, screen: TextIO) -> int | None:
    while line := answers.readline():
        word = line.strip().lower()
        if word in RIGHT or word in WRONG:
            return int(word in RIGHT)
        if word in QUIT:
            return None
        print(f"   {word!r} is no answer: 1 (right), 0 (wrong) or q (stop).", file=screen, flush=True)
    return None
