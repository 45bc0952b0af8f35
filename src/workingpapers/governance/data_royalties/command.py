"""`papers run data_royalties ...`: from training data and paid events to statements and payouts."""

from workingpapers.governance.data_royalties.command_attribution import run_attribute, run_compare, run_retrieve
from workingpapers.governance.data_royalties.command_books import (
    run_close,
    run_correct,
    run_export,
    run_open,
    run_pay,
    run_post,
    run_register,
)
from workingpapers.governance.data_royalties.command_checks import run_check, run_statement, run_verify

__all__ = [
    "run_attribute",
    "run_check",
    "run_close",
    "run_compare",
    "run_correct",
    "run_export",
    "run_open",
    "run_pay",
    "run_post",
    "run_register",
    "run_retrieve",
    "run_statement",
    "run_verify",
]
