'use strict'
// NODE_OPTIONS loads this into every Node process. Since 22.21 and 24.5, fetch() uses the proxy if NODE_USE_ENV_PROXY=1.
// Debian's Node 20 ignores that variable: there, the first call of fetch() sets the proxy agent of Debian's undici.

const [major, minor] = process.versions.node.split('.').map(Number)
const heedsTheVariable = major > 24 || (major === 24 && minor >= 5) || (major === 22 && minor >= 21)

function proxyAgent() {
  const { EnvHttpProxyAgent } = require('/usr/share/nodejs/undici')
  const emitWarning = process.emitWarning
  process.emitWarning = () => {} // hide undici's warning that the agent is experimental
  try {
    return new EnvHttpProxyAgent()
  } finally {
    process.emitWarning = emitWarning
  }
}

if (!heedsTheVariable && process.env.NODE_USE_ENV_PROXY === '1') {
  const builtIn = globalThis.fetch
  globalThis.fetch = function fetch(...args) {
    globalThis.fetch = builtIn
    require('/usr/share/nodejs/undici').setGlobalDispatcher(proxyAgent())
    return builtIn(...args)
  }
}
