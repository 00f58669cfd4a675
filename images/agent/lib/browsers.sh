# shellcheck shell=bash
# Chromium and browsers based on it read CA certificates only from the NSS database in the home directory. An image with such
# a browser also has certutil (libnss3-tools). Without certutil, this does nothing.

browser_store=${HOME:-}/.pki/nssdb # not a link to a shared one: Chromium needs write access
browser_ca=${AGENT_SANDBOX_CA:-/usr/local/share/agent-sandbox/ca/ca.crt}

nss() {
  certutil -d "sql:$browser_store" "$@"
}

trust_the_ca_in_browsers() {
  command -v certutil >/dev/null || return 0
  mkdir -p "$browser_store"
  [[ -e $browser_store/cert9.db ]] || nss -N --empty-password
  if nss -L -n agent-sandbox >/dev/null 2>&1; then # the CA may have changed since the last start
    nss -D -n agent-sandbox
  fi
  nss -A -n agent-sandbox -t C,, -i "$browser_ca" ||
    say "browsers in the container do not trust the proxy's CA: certutil cannot add it to $browser_store"
}
