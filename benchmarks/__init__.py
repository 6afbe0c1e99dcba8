"""One table of problems: what ninepoint and its peers do about each, checked equal, then timed."""
