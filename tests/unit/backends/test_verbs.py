from agent_sandbox.backends.verbs import Build, Cache, Freshness


def test_a_build_makes_only_what_is_outdated_and_uses_the_cache_unless_told_otherwise() -> None:
    verb = Build(images=())
    assert (verb.freshness, verb.cache, verb.base_image, verb.extra_ca) == (Freshness.OUTDATED, Cache.USE, "", None)
