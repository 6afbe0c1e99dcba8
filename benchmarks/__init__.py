"""One table of problems: what ninepoint and its peers do about each, checked equal, then timed.

`groups/` says what is measured, `peers/` who takes part, and the rest is one harness for all.
"""
