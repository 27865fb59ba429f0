#!/bin/sh
# Everything that can be said about the code without running it. Called by `make check`, which builds bin/tools first.
# All checks run, whatever the earlier ones found.
set -eu
cd "$(dirname "$0")/.."
. ./.ci/lib.sh
root=$PWD
tools=$root/bin/tools

command -v luacheck >/dev/null || leave_out "luacheck: not installed (the package lua-check, or the rock luacheck)"
refuse_in_ci

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

failed=
# check NAME COMMAND...: a check fails when its command does.
check() {
  name=$1
  shift
  heading "$name"
  if "$@"; then return; fi
  failed="$failed
  * $name"
}

# in_each 'DIR...' COMMAND...: the command in each of the folders.
in_each() {
  dirs=$1
  shift
  status=0
  for dir in $dirs; do
    (cd "$dir" && echo "$dir" && "$@") || status=1
  done
  return $status
}

formatted() {
  differences=$("$tools/gofumpt" -d .) && [ -z "$differences" ] && return
  printf '%s\n' "$differences"
  return 1
}

# with_packages COMMAND...: the command over all packages of a module, if it has any yet.
with_packages() {
  packages=$(go list ./...) || return 1
  [ -z "$packages" ] || "$@" ./...
}

# generated: what `go generate` writes is what is there. It runs in a copy, so that the tree stays as it is; and in one from
# which the scripts are gone, so that a script no part makes any more shows.
generated() {
  mkdir "$scratch/is" "$scratch/want" &&
    tar -cf "$scratch/tree.tar" --exclude=./.git --exclude=./bin . &&
    tar -xf "$scratch/tree.tar" -C "$scratch/is" &&
    tar -xf "$scratch/tree.tar" -C "$scratch/want" &&
    (cd "$scratch/want" && rm -f scripts/*.lua scripts/SHA1SUMS scripts_gen.go && go generate ./...) &&
    (cd "$scratch" && diff -ru is want)
}

pinned() (
  cd scripts && if command -v sha1sum >/dev/null; then sha1sum -c SHA1SUMS; else shasum -c SHA1SUMS; fi
)

check gofumpt formatted
check "go mod tidy" in_each "$(modules) tools" go mod tidy -diff
check "go vet" in_each "$(modules)" with_packages go vet
check golangci-lint in_each "$(modules)" with_packages "$tools/golangci-lint" run --config "$root/.golangci.yml"
check "generated files (make generate)" generated
check "scripts/SHA1SUMS" pinned
if command -v luacheck >/dev/null; then
  check luacheck luacheck --quiet scripts
fi

tell_left_out
if [ -n "$failed" ]; then
  printf '\nFAILED:%s\n' "$failed" >&2
  exit 1
fi
printf '\nall checks passed\n'
