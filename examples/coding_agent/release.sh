#!/bin/sh
# Stands for publishing. The key goes along, so that the other side can be asked about it later.
# RELEASE_ANSWER=lost makes it fail after it has happened.
set -eu
[ -w . ] || exit 75 # nothing happened, and we know it
echo "$OUTLAST_EFFECT_KEY greet.sh" >>released.txt
[ "${RELEASE_ANSWER:-}" != lost ]
echo '{"version": "1.0"}' >"$OUTLAST_RESULT"
