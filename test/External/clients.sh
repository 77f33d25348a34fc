#!/usr/bin/env bash
# Contract: runs real client libraries (npm: clients/package.json, installed into the cache) on raw Redis first, where all
# must pass, then on the target. Ends with `N passed, N failed` of the target's run.
#
#   clients.sh [--target raw|forwarder|none|log] [--only REGEX]
set -uo pipefail
# shellcheck source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
target=raw only=''
while [ $# -gt 0 ]; do
    case $1 in
        --target) target=$2; shift 2 ;;
        --only) only=$2; shift 2 ;;
        *) fail "unknown option $1" ;;
    esac
done
need_tools redis-server node npm timeout
install_clients
make_work_dir

run_on() { # run_on TARGET OUTPUT
    start_redis
    start_target "$1"
    CLIENTS_DIR=$clients_dir HOST=127.0.0.1 PORT=$target_port ONLY=$only timeout --kill-after=5 900 \
        node "$external_dir/clients/suite.mjs" >"$2" 2>&1
    local status=$?
    stop_all
    return "$status"
}

if ! run_on raw "$work_dir/raw.out"; then
    cat "$work_dir/raw.out"
    fail "the checks do not pass on raw Redis"
fi
[ "$target" != raw ] || { cat "$work_dir/raw.out"; exit 0; }
run_on "$target" "$work_dir/target.out"
status=$?
cat "$work_dir/target.out"
grep -qE '^[0-9]+ passed, [0-9]+ failed$' "$work_dir/target.out" || { echo "CUT: the run did not end (status $status)"; echo "0 passed, 1 failed"; }
[ "$status" -eq 0 ] || tail -n 30 "$work_dir/target.log" >&2
exit "$status"
