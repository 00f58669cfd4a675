from agent_sandbox.render.formats.header import BEGIN, Provenance, provenance_of, stamped, unix

TEXT = stamped("a: 1\n", comment="#")


def test_the_header_says_who_wrote_the_file_and_what_but_not_which_version() -> None:
    first, second, body = TEXT.split("\n", 2)
    assert first == "# Written by agent-sandbox. `agent-sandbox init` updates it unless it was edited."
    assert first.encode().startswith(BEGIN)
    assert second.startswith("# agent-sandbox-digest: sha256:")
    assert body == "a: 1\n"


def test_what_nobody_has_touched_is_ours() -> None:
    assert provenance_of(TEXT) is Provenance.OURS
    assert provenance_of(stamped("{}\n", comment="//")) is Provenance.OURS


def test_line_ends_that_git_has_changed_do_not_count() -> None:
    assert provenance_of(TEXT.replace("\n", "\r\n")) is Provenance.OURS


def test_one_character_more_is_an_edit() -> None:
    assert provenance_of(f"{TEXT} ") is Provenance.EDITED
    assert provenance_of(TEXT.replace("a: 1", "a: 2")) is Provenance.EDITED


def test_an_edited_title_is_no_edit_of_the_body() -> None:
    assert provenance_of(TEXT.replace("agent-sandbox.", "agent-sandbox 0.1.0.")) is Provenance.OURS


def test_a_file_without_the_header_is_somebody_elses() -> None:
    for text in ("", "a: 1\n", TEXT.split("\n", 1)[1], f"# mine\n{TEXT}", "# x\n# agent-sandbox-digest: sha256:12\na"):
        assert provenance_of(text) is Provenance.FOREIGN


def test_unix_line_ends_stay() -> None:
    assert unix("a\r\nb\n") == "a\nb\n"


def test_a_file_names_the_command_that_wrote_it() -> None:
    assert "`agent-sandbox init` updates it" in TEXT
    assert "`x y` updates it" in stamped("a: 1\n", comment="#", command="x y")
