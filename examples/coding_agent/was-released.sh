#!/bin/sh
# The probe: exit 0 it happened (what is printed is the result), 1 it did not, anything else: nobody knows.
[ -e released.txt ] || exit 1
grep -q "^$OUTLAST_EFFECT_KEY " released.txt || exit 1
echo '{"version": "1.0"}'
