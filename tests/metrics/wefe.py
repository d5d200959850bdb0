"""The numbers of WEFE 1.0.1's documented example, and the exact p-value beside them."""

from __future__ import annotations

STATISTIC, EFFECT_SIZE, P_VALUE = 0.4634388245467562, 0.45076532408312986, 0.18658
EXACT_P = 0.197125
