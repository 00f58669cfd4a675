# shellcheck shell=sh
# Options of Chromium, whose start script in Debian sources this file. Its own sandbox would need a user namespace or a setuid
# program, and nothing in the container may have either. The container's /dev/shm has only 64 MiB. Chromium asks the last two
# addresses for updates and accounts at every start, whatever the policies say; each request would be a denial in the log.
CHROMIUM_FLAGS="${CHROMIUM_FLAGS-} --no-sandbox --disable-dev-shm-usage --no-first-run --disable-background-networking"
CHROMIUM_FLAGS="$CHROMIUM_FLAGS --component-updater=url-source=http://localhost:1/ --gaia-url=http://localhost:1/"
