#!/bin/sh
# Runs the tests of every module, one module after the other. Called by `make test`; needs only Go.
#
# What the machine lacks is left out and said: the race detector without a C compiler, the module `integration` without a
# Docker daemon, replays of a real access log without RATION_ACCESS_LOG. With CI=true that is a failure.
set -eu
cd "$(dirname "$0")/.."
. ./.ci/lib.sh

race=
if CGO_ENABLED=1 go build -race runtime/cgo 2>/dev/null; then
  export CGO_ENABLED=1
  race=-race
else
  leave_out "the race detector, and in the module integration the tests with a clock of their own: they need a C compiler"
fi

docker=
if docker info >/dev/null 2>&1; then
  docker=yes
  # Inside a container that runs a daemon of its own, published ports are on the loopback address; testcontainers would
  # look for them at the gateway.
  if [ -e /.dockerenv ] && [ -e /sys/class/net/docker0 ]; then
    export TESTCONTAINERS_HOST_OVERRIDE="${TESTCONTAINERS_HOST_OVERRIDE:-127.0.0.1}"
  fi
else
  leave_out "the module integration: no Docker daemon answers"
fi

command -v redis-server >/dev/null || leave_out "drills that stop and kill a redis-server, and benchmarks that start their own: it is not in PATH"

if [ -z "${RATION_ACCESS_LOG:-}" ]; then
  leave_out "replays of a real access log: RATION_ACCESS_LOG is not set to one"
elif [ ! -r "$RATION_ACCESS_LOG" ]; then
  leave_out "replays of a real access log: RATION_ACCESS_LOG=$RATION_ACCESS_LOG cannot be read"
fi

refuse_in_ci

# allocation_tests says whether a package here has a test that counts allocations: TestSomethingAllocSomething.
allocation_tests() {
  go list -f '{{range .TestGoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}' ./... |
    tr '\n' '\0' | xargs -0 grep -qs '^func Test[A-Za-z0-9_]*Alloc' /dev/null
}

# go_test ARG...: one run, its command shown.
go_test() {
  echo "+ go test $* ./..."
  go test "$@" ./...
}

# test_module DIR runs in a subshell, whose status says whether all passed.
test_module() (
  cd "$1" || exit 1
  packages=$(go list ./...) || exit 1
  if [ -z "$packages" ]; then
    exit 0
  fi
  if [ "$1" = ./integration ]; then
    # Containers: one package at a time, and never a remembered result.
    [ -n "$docker" ] || exit 0
    go_test $race -shuffle=on -count=1 -p 1 -timeout 30m
    exit
  fi
  status=0
  go_test $race -shuffle=on -timeout 10m || status=1
  # The race detector allocates: what counts allocations has to run without it.
  if [ -n "$race" ] && allocation_tests; then
    go_test -run Alloc -timeout 10m || status=1
  fi
  # A hundred thousand operations at random against the exact model; `make soak` does a million.
  if [ "$1" = . ]; then
    echo "+ RATION_LEAST_OPERATIONS=100000 go test -run ^TestModel\$ -rapid.checks=600 ."
    RATION_LEAST_OPERATIONS=100000 go test -run '^TestModel$' -rapid.checks=600 -timeout 20m . || status=1
  fi
  exit $status
)

failed=
for dir in $(modules); do
  heading "test $dir"
  test_module "$dir" || failed="$failed $dir"
done

tell_left_out
if [ -n "$failed" ]; then
  printf '\nFAILED:%s\n' "$failed" >&2
  exit 1
fi
