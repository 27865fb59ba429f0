#!/bin/sh
# wait.sh CONTAINER...: waits until each is healthy, for two minutes at most. The older docker-compose cannot.
set -eu

left=120
for container in "$@"; do
  name=$(docker inspect -f '{{.Name}}' "$container")
  until state=$(docker inspect -f '{{.State.Health.Status}}' "$container") && [ "$state" = healthy ]; do
    left=$((left - 1))
    if [ "$left" -le 0 ] || [ "$(docker inspect -f '{{.State.Running}}' "$container")" != true ]; then
      docker logs --tail 20 "$container" >&2
      echo "${name#/} is $state" >&2
      exit 1
    fi
    sleep 1
  done
  echo "${name#/} is $state"
done
