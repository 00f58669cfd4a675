# shellcheck shell=bash
# The project's MCP servers in the settings of each agent: AGENT_SANDBOX_MCP, and records of what earlier starts wrote.

mcp_program=${AGENT_SANDBOX_MCP_PROGRAM:-/usr/local/lib/agent-sandbox/configure_mcp.py}

configure_mcp() {
  local state states records=()
  IFS=: read -r -a states <<<"${AGENT_SANDBOX_STATE:-}"
  for state in "${states[@]}"; do
    [[ ! -f $state/.agent-sandbox-mcp.json ]] || records+=("$state/.agent-sandbox-mcp.json")
  done
  [[ -n ${AGENT_SANDBOX_MCP-}${records[*]} ]] || return 0
  timeout 20 "$mcp_program" "${records[@]}"
}
