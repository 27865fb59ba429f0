# shellcheck shell=sh
# What test.sh and check.sh share. Sourced, with the root of the repository as the working directory.

# modules: the folder of every module with code of ours, the root first. The module tools only lists what to build.
modules() {
  find . -name go.mod -not -path './bin/*' -not -path './tools/*' -not -path '*/testdata/*' | sed 's|/go\.mod$||' | sort
}

heading() { printf '\n== %s\n' "$*"; }

# leave_out TEXT: something will not be checked on this machine. Nothing may be left out under CI=true: what a green run
# says would depend on the machine it ran on.
left_out=
leave_out() {
  left_out="$left_out
  * $*"
}

# refuse_in_ci ends a CI run from which something is left out, before it starts.
refuse_in_ci() {
  if [ -n "$left_out" ] && [ "${CI:-}" = true ]; then
    printf '\nCI=true, and this machine cannot do everything:%s\n' "$left_out" >&2
    exit 1
  fi
}

# tell_left_out goes last, so that it is what is still on the screen.
tell_left_out() {
  if [ -n "$left_out" ]; then
    printf '\n!!!! NOT EVERYTHING RAN. Left out on this machine:%s\n' "$left_out" >&2
  fi
}
