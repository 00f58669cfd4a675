# shellcheck shell=bash
# Where the proxy is: AGENT_SANDBOX_PROXY=ADDRESS:PORT, and AGENT_SANDBOX_PROXY_PORTS="tcp/8080 ..." if it uses more.

is_port() {
  [[ $1 =~ ^[1-9][0-9]{0,4}$ ]] && ((10#$1 <= 65535))
}

is_ipv4() {
  local octet='(0|[1-9][0-9]?|1[0-9][0-9]|2[0-4][0-9]|25[0-5])'
  [[ $1 =~ ^$octet\.$octet\.$octet\.$octet$ ]]
}

proxy_address() {
  printf '%s\n' "${AGENT_SANDBOX_PROXY%:*}"
}

has_network() { # whether there is a route, except the one to nowhere; argument, for tests: the routing table's file
  [[ $(grep -cv '^nowhere[[:space:]]' "${1:-/proc/net/route}") -gt 1 ]]
}

proxy_port() {
  printf '%s\n' "${AGENT_SANDBOX_PROXY##*:}"
}

proxy_openings() { # one `protocol port` a line
  local opening
  for opening in ${AGENT_SANDBOX_PROXY_PORTS:-tcp/$(proxy_port)}; do
    printf '%s %s\n' "${opening%%/*}" "${opening#*/}"
  done
}

check_proxy_variables() { # they become firewall rules, so reject anything malformed
  local where=${AGENT_SANDBOX_PROXY:-} protocol port
  if ! is_ipv4 "${where%:*}" || ! is_port "${where##*:}"; then
    die "AGENT_SANDBOX_PROXY is '$where', not an address like 10.128.0.2:8080" "regenerate the compose file: agent-sandbox init --force"
  fi
  while read -r protocol port; do
    if [[ $protocol != tcp && $protocol != udp ]] || ! is_port "$port"; then
      die "AGENT_SANDBOX_PROXY_PORTS contains '$protocol/$port', not an entry like tcp/8080" "correct it in the compose file"
    fi
  done < <(proxy_openings)
}
