#!/bin/sh
# Stands for a coding agent: `./agent.sh plan|author|critic`. AGENT_SECONDS makes the author slow, so that it can be killed.
set -eu

plan() {
    printf '# Plan for %s\n\nWrite src/greet.sh. It says hello.\n' "$OUTLAST_INPUT_TICKET" >plan.md.new
    mv plan.md.new plan.md # a whole file or none: doing it again does no harm
    printf '{"done": "wrote the plan", "next": "approve it", "artifacts": ["plan.md"]}' >"$OUTLAST_ENVELOPE"
}

author() {
    found=nothing
    if [ -n "${OUTLAST_PREVIOUS:-}" ]; then # an earlier attempt was cut off: this is what it left
        found="partial work"
        cat "$OUTLAST_PREVIOUS"
    fi
    mkdir -p src
    printf '#!/bin/sh\n' >src/greet.sh
    sleep "${AGENT_SECONDS:-0}" # half of the file is written
    if [ "$OUTLAST_ITERATION" -ge 2 ]; then # the first try forgets what it is for; the critic notices
        printf 'echo hello\n' >>src/greet.sh
    fi
    printf '{"found": "%s"}' "$found" >"$OUTLAST_RESULT"
}

critic() {
    echo "the author said: $(cat "$OUTLAST_HANDOFF")"
    if grep -q hello src/greet.sh; then word=good; else word="it does not say hello"; fi
    echo "$word" >review.md
    printf '{"verdict": "%s"}' "$word" >"$OUTLAST_RESULT"
}

"$1"
