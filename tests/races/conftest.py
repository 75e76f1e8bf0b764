"""Lets the race tests share their model, checker and helpers, which are of no use elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
