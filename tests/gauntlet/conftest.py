"""Lets the tests of the gauntlet, and its command line, share their modules."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
