"""How the models in memory divide what KV pages may take."""

from __future__ import annotations

from collections.abc import Sequence

from engine.fitting.fit import Tenant, page_shares
from engine.machine.machine import memory_bytes
from engine.residents.resident import Resident
from engine.settings import EngineSettings


class Shares:
    """Pages of each model, as `engine.fitting.fit.page_shares` has them."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings

    def of(self, residents: Sequence[Resident], *newcomer: Tenant) -> list[int] | None:
        """The most pages of each when a newcomer is in memory, too; None: they do not fit."""
        tenants = [*(resident.at_work.tenant() for resident in residents), *newcomer]
        return page_shares(tenants, memory_bytes(), self._settings)

    def first_to_go(self, residents: Sequence[Resident], newcomer: Tenant) -> Resident:
        """Who makes room first; where answers have to end, one whose leaving is enough, if there is one."""
        order = sorted(residents, key=lambda one: (one.is_wanted, *one.needed_by))
        if order[0].is_wanted and order[0].at_work.busy:
            for one in order:
                if self.of([other for other in order if other is not one], newcomer):
                    return one
        return order[0]

    def divide(self, residents: Sequence[Resident]) -> None:
        """Divide among those that are in memory now: nobody has to give up what is cached for it."""
        if residents and (shares := page_shares(_as_held(residents), memory_bytes(), self._settings)):
            _limit(residents, shares)

    def divide_at_rest(self, residents: Sequence[Resident]) -> None:
        """Divide anew as their chats are long, once nobody has to give up what is cached for that either.

        A model that came while another was at work had what that one's arena left, until this is given back.
        """
        shares = self.of(residents) if len(residents) > 1 else None
        held = [tenant.held_pages for tenant in _as_held(residents)]
        if shares and all(pages >= has for pages, has in zip(shares, held, strict=True)):
            _limit(residents, shares)


def _as_held(residents: Sequence[Resident]) -> list[Tenant]:
    return [resident.at_work.tenant(is_held=True) for resident in residents]


def _limit(residents: Sequence[Resident], shares: Sequence[int]) -> None:
    """Nothing has to be written for it."""
    for resident, pages in zip(residents, shares, strict=True):
        resident.at_work.limit_pages(pages, 0.0)
