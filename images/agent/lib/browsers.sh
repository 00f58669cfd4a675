# shellcheck shell=bash
# Chromium and all that is made of it read no file of certificates, only NSS's database in the home. Where an image has a
# browser, it has certutil (libnss3-tools) beside it; elsewhere nothing is done.

browser_store=${HOME:-}/.pki/nssdb # not a link to one that is shared: Chromium opens it to write, or not at all
browser_ca=${AGENT_SANDBOX_CA:-/usr/local/share/agent-sandbox/ca/ca.crt}

nss() {
  certutil -d "sql:$browser_store" "$@"
}

trust_the_ca_in_browsers() {
  command -v certutil >/dev/null || return 0
  mkdir -p "$browser_store"
  [[ -e $browser_store/cert9.db ]] || nss -N --empty-password
  if nss -L -n agent-sandbox >/dev/null 2>&1; then # the CA may be another one than at the last start
    nss -D -n agent-sandbox
  fi
  nss -A -n agent-sandbox -t C,, -i "$browser_ca" ||
    say "browsers in the container do not trust the proxy's CA: certutil cannot add it to $browser_store"
}
