#!/bin/sh
# Size of the program, time from its start to ready, resident memory when idle.
#
#   benches/footprint.sh target/dist/mds KUBECONFIG TLS_DIR
#
# The kubeconfig is of a cluster that serves, the directory has tls.crt and tls.key (mds certs makes them). Five starts.
set -eu
program=$1 kubeconfig=$2 tls=$3
log=$(mktemp)
trap 'rm -f "$log"' EXIT

echo "size: $(stat -c %s "$program") bytes"
for start in 1 2 3 4 5; do
  began=$(date +%s%N)
  "$program" serve --listen 127.0.0.1:0 --health-listen 127.0.0.1:0 --tls-dir "$tls" --kubeconfig "$kubeconfig" \
    --drain-delay 0 2>"$log" &
  pid=$!
  health=
  while [ -z "$health" ]; do
    kill -0 "$pid" || { cat "$log" >&2; exit 1; }
    health=$(sed -n 's/.*"message":"serving".*"health":"\([^"]*\)".*/\1/p' "$log")
  done
  until curl -sf -o /dev/null "http://$health/readyz"; do
    # Not ready after 10 s: something is missing, and /readyz says what.
    if [ $(($(date +%s%N) - began)) -gt 10000000000 ]; then
      curl -s "http://$health/readyz" >&2
      kill "$pid"
      exit 1
    fi
  done
  ready=$(($(date +%s%N) - began))
  sleep 1
  memory=$(sed -n 's/^VmRSS:[[:space:]]*//p' "/proc/$pid/status")
  kill "$pid"
  wait "$pid"
  echo "start $start: ready after $((ready / 1000000)) ms, $memory resident"
done
