#!/bin/sh
# A Redis Cluster in one container, which the host of that container reaches: every node says that it is at 127.0.0.1, so
# each port has to be published under its own number. The nodes speak among themselves inside the container.
#
#   cluster.sh serve     starts six servers, makes three of them masters and three replicas, and stays
#   cluster.sh healthy   succeeds when every node sees the whole cluster, and every replica follows its master
#
# PORTS, "7371-7376", are their ports, six in a row; SERVER_OPTIONS are further options of each server.
set -eu

ports=$(seq "${PORTS%-*}" "${PORTS#*-}")
program=redis
if command -v valkey-server >/dev/null; then
  program=valkey
fi

serve() {
  # Forgotten with the container's processes: each start makes a new cluster.
  rm -rf /tmp/cluster
  addresses=
  for port in $ports; do
    mkdir -p "/tmp/cluster/$port"
    # shellcheck disable=SC2086 # a list of options
    $program-server --port "$port" --bind 0.0.0.0 --protected-mode no --dir "/tmp/cluster/$port" --save '' --appendonly no \
      --cluster-enabled yes --cluster-node-timeout 2000 --cluster-announce-ip 127.0.0.1 ${SERVER_OPTIONS:-} &
    addresses="$addresses 127.0.0.1:$port"
  done
  trap 'kill $(jobs -p) 2>/dev/null || true' TERM INT

  for port in $ports; do
    until $program-cli -p "$port" ping >/dev/null 2>&1; do sleep 0.1; done
  done
  # shellcheck disable=SC2086 # a list of addresses
  $program-cli --cluster create $addresses --cluster-replicas 1 --cluster-yes
  # Until the last server is gone: killing one inside the container is a way to see a failover.
  wait
}

healthy() {
  for port in $ports; do
    $program-cli -p "$port" cluster info | grep -q '^cluster_state:ok' || return 1
    $program-cli -p "$port" cluster info | grep -q '^cluster_known_nodes:6' || return 1
    ! $program-cli -p "$port" info replication | grep -q '^master_link_status:down' || return 1
  done
}

case ${1:-} in
  serve | healthy) "$1" ;;
  *) echo "usage: cluster.sh serve|healthy" >&2; exit 2 ;;
esac
