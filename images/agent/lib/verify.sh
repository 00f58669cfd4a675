# shellcheck shell=bash
# Checks at every start: all direct connections are refused immediately, and the proxy answers. Needs no capabilities.

# A documentation address (RFC 5737), its IPv6 sibling, Docker's DNS server, and a port on which the proxy does not listen.
direct_ways() {
  printf '%s\n' '203.0.113.131 443' '2001:db8::1 443' '127.0.0.11 53' "$(proxy_address) 22"
}

connect() { # arguments: address, port; 0 connected, 1 refused, 124 no answer in two seconds
  # shellcheck disable=SC2016 # the inner shell expands its own arguments
  timeout 2 bash -c 'exec 3<>"/dev/tcp/$1/$2"' connect "$1" "$2" 2>/dev/null
}

check_refused() { # arguments: address, port
  local status=0
  connect "$1" "$2" || status=$?
  case $status in
    0) die "$1 port $2 can be reached without the proxy" "the firewall is not in force: agent-sandbox down, then agent-sandbox up" ;;
    1) ;;
    *) die "$1 port $2 is not refused immediately" "the firewall is not in force: agent-sandbox down, then agent-sandbox up" ;;
  esac
}

check_direct_ways() {
  local address port
  while read -r address port; do
    check_refused "$address" "$port"
  done < <(direct_ways)
}

# .invalid can never be registered (RFC 6761), and no policy allows it. `--disable` ignores ~/.curlrc.
ask_for_a_denial() {
  curl --disable --silent --noproxy '' --proxy "http://$AGENT_SANDBOX_PROXY" --max-time 5 --output /dev/null \
    --write-out '%{http_code} %header{x-agent-sandbox}' http://agent-sandbox.invalid/
}

# `block_status` is 403 or 418.
check_proxy_denies() { # waits: after a restart of Docker, the proxy may start last
  local answer='' deadline=$((SECONDS + ${AGENT_SANDBOX_PROXY_WAIT:-30}))
  until answer=$(ask_for_a_denial) && [[ $answer =~ ^4(03|18)' blocked'$ ]]; do
    ((SECONDS < deadline)) || die "the proxy at $AGENT_SANDBOX_PROXY does not deny a request that no policy allows (answer: '$answer')" \
      "see: agent-sandbox logs proxy"
    sleep 0.2
  done
}

check_walls() { # runs the probe's quick attempts; `agent-sandbox verify` runs all
  local said
  # shellcheck disable=SC2154 # set by the program that sources this
  said=$("$here/probe.py") || {
    grep -v '^closed' <<<"$said" >&2
    die "the container is not sealed" "see the lines above; agent-sandbox down, then agent-sandbox up, recreates the stack"
  }
}
