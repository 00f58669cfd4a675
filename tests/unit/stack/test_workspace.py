from agent_sandbox.stack.workspace import Access, Ide, Owner, Protected, Workspace


def test_a_workspace_needs_no_more_than_a_place_a_title_and_an_editor() -> None:
    workspace = Workspace(path="/p", title="p", ide=Ide.NONE)
    assert (workspace.owner, workspace.protected, workspace.dotfiles, workspace.shell_d) == (Owner(), (), None, None)


def test_dev_is_an_ordinary_user_unless_told_otherwise() -> None:
    assert Owner() == Owner(uid=1000, gid=1000)


def test_what_is_protected_is_read_only_unless_told_otherwise() -> None:
    assert Protected(path=".vscode", why="x").access is Access.READ
