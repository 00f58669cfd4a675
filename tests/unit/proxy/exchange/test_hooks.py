from agent_sandbox.proxy.exchange.hooks import hook, hook_table
from agent_sandbox.proxy.tunnel import Tunnel


class First:
    @hook
    def request(self, _: object, __: Tunnel) -> None:
        """A hook."""

    def response(self) -> None:
        """Not marked, so not a hook."""


class Second:
    @hook
    def request(self, _: object, __: Tunnel) -> None:
        """Another one of the same name."""


def test_the_table_has_marked_methods_in_the_order_of_the_addons() -> None:
    first, second = First(), Second()
    assert hook_table(first, second) == {"request": (first.request, second.request)}
