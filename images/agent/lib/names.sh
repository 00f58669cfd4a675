# shellcheck shell=bash
# Names: the proxy answers for them, with its own address for what the policy allows. Nothing else is asked.

resolver_file=${AGENT_SANDBOX_RESOLV:-/etc/resolv.conf}

ask_the_proxy_for_names() { # the engine's own resolver would forward questions; the agent shares this very file
  printf '%s\n' "nameserver $(proxy_address)" 'options timeout:2 attempts:2' >"$resolver_file" ||
    die "$resolver_file cannot be written" "regenerate the compose file: agent-sandbox init --force"
}
