# shellcheck shell=bash
# DNS: the proxy is the only DNS server. It answers with its own address for names that the policy allows.

resolver_file=${AGENT_SANDBOX_RESOLV:-/etc/resolv.conf}

ask_the_proxy_for_names() { # Docker's DNS server would forward queries; the agent container shares this file
  printf '%s\n' "nameserver $(proxy_address)" 'options timeout:2 attempts:2' >"$resolver_file" ||
    die "$resolver_file cannot be written" "regenerate the compose file: agent-sandbox init --force"
}

leave_no_name_server() { # the names that the service may use are in /etc/hosts
  printf '%s\n' 'options timeout:1 attempts:1' >"$resolver_file" ||
    die "$resolver_file cannot be written" "regenerate the compose file: agent-sandbox init --force"
}
