from agent_sandbox.stack.environment import java_environment, proxy_environment, trust_environment


def test_proxy_variables_are_set_in_upper_and_lower_case() -> None:
    environment = proxy_environment("10.0.0.2")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        assert environment[name] == environment[name.lower()] == "http://10.0.0.2:8080"
    assert environment["NO_PROXY"] == environment["no_proxy"] == "localhost,127.0.0.1,::1,10.0.0.2"


def test_passes_the_proxys_address_to_our_scripts() -> None:
    assert proxy_environment("10.0.0.2")["AGENT_SANDBOX_PROXY"] == "10.0.0.2:8080"


def test_node_gets_the_ca_and_all_other_programs_the_whole_trust_store() -> None:
    environment = dict(trust_environment())
    assert environment.pop("NODE_EXTRA_CA_CERTS") == "/usr/local/share/agent-sandbox/ca/ca.crt"
    assert environment.pop("SSL_CERT_DIR") == "/etc/ssl/certs"
    assert set(environment.values()) == {"/etc/ssl/certs/ca-certificates.crt"}
    assert {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "DENO_CERT"} <= set(environment)
    assert "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH" in environment


def test_java_gets_proxy_and_trust_store_as_system_properties() -> None:
    (options,) = java_environment("10.0.0.2").values()
    assert "-Dhttps.proxyHost=10.0.0.2 -Dhttps.proxyPort=8080" in options
    assert "-Djavax.net.ssl.trustStore=/etc/ssl/certs/agent-sandbox.p12" in options
