"""A deny in the user's layer, in the running stack of a project whose own policy allows the host."""

from real_stacks import Projects

HOST = "api.anthropic.com"


def test_a_deny_of_the_user_layer_applies_to_a_project_until_it_is_removed(projects: Projects) -> None:
    home = projects.folder / "home"
    layer = home / ".config" / "agent-sandbox" / "policy.yaml"
    layer.parent.mkdir(parents=True)
    layer.write_text(f"deny:\n  - GET https://{HOST}/secret\n")
    project = projects.make("layered", "claude", home=home)
    project.compose("up", "--detach", "--wait")
    assert project.curl(f"https://{HOST}/")[0] == 200
    status, body = project.curl(f"https://{HOST}/secret")
    assert (status, "user/policy.yaml:2" in body) == (403, True)
    layer.write_text("")
    project.compose("restart", "proxy")
    project.wait_until_it_answers(f"https://{HOST}/secret", 200)
    assert [request["path"] for request in project.internet.requests(HOST)][-1:] == ["/secret"]
