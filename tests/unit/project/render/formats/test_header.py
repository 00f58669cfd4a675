from agent_sandbox.project.render.formats.header import BEGIN, Provenance, provenance_of, stamped

TEXT = stamped("a: 1\n", comment="#")


def test_the_header_names_agent_sandbox_and_a_digest_but_no_version() -> None:
    first, second, body = TEXT.split("\n", 2)
    assert first == "# Written by agent-sandbox. `agent-sandbox init` updates it unless it was edited."
    assert first.encode().startswith(BEGIN)
    assert second.startswith("# agent-sandbox-digest: sha256:")
    assert body == "a: 1\n"


def test_an_unchanged_file_is_ours() -> None:
    assert provenance_of(TEXT) is Provenance.OURS
    assert provenance_of(stamped("{}\n", comment="//")) is Provenance.OURS


def test_changed_line_endings_are_not_an_edit() -> None:
    assert provenance_of(TEXT.replace("\n", "\r\n")) is Provenance.OURS


def test_any_other_change_is_an_edit() -> None:
    assert provenance_of(f"{TEXT} ") is Provenance.EDITED
    assert provenance_of(TEXT.replace("a: 1", "a: 2")) is Provenance.EDITED


def test_a_changed_first_header_line_is_not_an_edit() -> None:
    assert provenance_of(TEXT.replace("agent-sandbox.", "agent-sandbox 0.1.0.")) is Provenance.OURS


def test_a_file_without_the_header_is_foreign() -> None:
    for text in ("", "a: 1\n", TEXT.split("\n", 1)[1], f"# mine\n{TEXT}", "# x\n# agent-sandbox-digest: sha256:12\na"):
        assert provenance_of(text) is Provenance.FOREIGN


def test_the_header_names_the_command_that_updates_the_file() -> None:
    assert "`agent-sandbox init` updates it" in TEXT
    assert "`x y` updates it" in stamped("a: 1\n", comment="#", command="x y")
