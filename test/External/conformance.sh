#!/usr/bin/env bash
# Contract: starts two fresh Redis servers and a target in front of the second, and runs the conformance cases
# (conformance/run.py) on raw Redis and on the target, which must look alike byte for byte. Ends with `N passed, N failed`.
#
#   conformance.sh [--target raw|forwarder|none|log] [options of conformance/run.py, such as --only REGEX, --long, --seed N]
set -uo pipefail
# shellcheck source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
target=raw
[ "${1:-}" != --target ] || { target=$2; shift 2; }
need_tools redis-server python3
make_work_dir
start_redis
redis-cli -p "$redis_port" ACL SETUSER slogger on '>conformance' '~*' '&*' +@all >/dev/null
left=127.0.0.1:$redis_port
start_redis
redis-cli -p "$redis_port" ACL SETUSER slogger on '>conformance' '~*' '&*' +@all >/dev/null
# The cases cut down the default user: the proxy has a user of its own, as its documentation says, and both sides know it.
if [ "$target" = none ] || [ "$target" = log ]; then
    echo conformance >"$work_dir/password"
    SLOGGER_EXTRA_OPTIONS="${SLOGGER_EXTRA_OPTIONS:-} --redis-user slogger --redis-password-file $work_dir/password"
fi
start_target "$target"
python3 "$external_dir/conformance/run.py" --left "$left" --right "127.0.0.1:$target_port" \
    --right-direct "127.0.0.1:$redis_port" --exceptions "$external_dir/conformance.$target-exceptions.txt" "$@"
status=$?
if [ "$status" -ne 0 ] && [ -s "$work_dir/target.log" ]; then
    say "--- the end of the target's log"; tail -n 30 "$work_dir/target.log" >&2
fi
exit "$status"
