"""Raters who answer at once over HTTP, each as fast as the server goes, and write down what it acknowledged."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field

import httpx

from tests.web.rating import place_in, token_in


@dataclass
class Witness:
    """What the server said that it kept: (address of the rater, place) → answer."""

    acknowledged: dict[tuple[str, int], str] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)


async def rate(url: str, invitation: str, witness: Witness) -> None:
    """Join and answer until the end, or until the server is gone."""
    async with httpx.AsyncClient(base_url=url, timeout=600) as browser:
        try:
            await _rate(browser, invitation, witness)
        except httpx.HTTPError:
            return


async def _rate(browser: httpx.AsyncClient, invitation: str, witness: Witness) -> None:
    page = (await browser.get(f"/join/{invitation}")).text
    joined = await browser.post(f"/join/{invitation}", data={"csrf_token": token_in(page)})
    address = joined.headers["Location"]
    page = (await browser.get(address)).text
    while (place := place_in(page)) is not None:
        answer = re.findall(r'name="answer" value="([^"]+)"', page)[place % 2]
        data = {"csrf_token": token_in(page), "place": place, "answer": answer, "seconds": "1"}
        said = await browser.post(address, data=data)
        if said.status_code == 303:
            witness.acknowledged[address, place] = answer
        page = (await browser.get(address)).text


async def all_rate(url: str, invitation: str, raters: int, witness: Witness) -> None:
    """So many raters at once."""
    await asyncio.gather(*(rate(url, invitation, witness) for _ in range(raters)))
