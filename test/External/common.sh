# Contract: shared by the scripts of this folder (sourced, never run). Settings, the fetched Redis sources, servers
# started and stopped by pid, free ports. Promises: nothing outside the cache and a temp directory is touched, the
# machine's own package lists are not, and no process is ended that was not started here.

external_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo_dir=$(cd "$external_dir/../.." && pwd)
cache_dir=${SLOGGER_EXTERNAL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slogger-external}
redis_version=7.0.15
work_dir=
started_pids=()

say() { printf '%s\n' "$*" >&2; }
fail() { say "error: $*"; exit 2; }

# Exit status that means "this machine cannot run it" (a missing tool, sources that cannot be fetched).
readonly exit_unavailable=75
unavailable() { say "unavailable: $*"; exit "$exit_unavailable"; }

need_tools() {
    local tool missing=()
    for tool in "$@"; do command -v "$tool" >/dev/null || missing+=("$tool"); done
    [ ${#missing[@]} -eq 0 ] || unavailable "missing on this machine: ${missing[*]}"
}

make_work_dir() {
    work_dir=$(mktemp -d "${TMPDIR:-/tmp}/slogger-external.XXXXXX")
    trap 'stop_all; [ -n "${KEEP_WORK:-}" ] || rm -rf "$work_dir"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

# A port of loopback that nobody listens on now. SLOGGER_EXTERNAL_PORTS=FIRST-LAST (default 31000-31999) bounds it.
next_port=
free_port() { # free_port NAME_OF_VARIABLE
    local range=${SLOGGER_EXTERNAL_PORTS:-31000-31999} first last tries lock locks
    # Not below TMPDIR: runs that have one each share the machine's ports.
    locks=/tmp/slogger-external-ports-$(id -u)
    mkdir -p "$locks"
    first=${range%-*} last=${range#*-}
    [ -n "$next_port" ] || next_port=$((first + $$ % (last - first)))
    for ((tries = 0; tries <= last - first; tries++)); do
        next_port=$((next_port >= last ? first : next_port + 1))
        # The lock is held as long as this script or the server it starts lives: runs side by side never share a port.
        exec {lock}>"$locks/$next_port.lock" || fail "cannot write $locks"
        if flock -n "$lock" && ! (exec 3<>"/dev/tcp/127.0.0.1/$next_port") 2>/dev/null; then
            printf -v "$1" '%s' "$next_port"
            return
        fi
        exec {lock}>&-
    done
    fail "no free port in $range"
}

stop_pid() { # asks, waits up to 5 s, then kills
    local pid=$1 i
    kill -TERM "$pid" 2>/dev/null || return 0
    for ((i = 0; i < 50; i++)); do
        kill -0 "$pid" 2>/dev/null || { wait "$pid" 2>/dev/null; return 0; }
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    return 0
}

stop_all() {
    local i
    for ((i = ${#started_pids[@]} - 1; i >= 0; i--)); do stop_pid "${started_pids[i]}"; done
    started_pids=()
}

# Waits until host:port answers a PING with anything of RESP (a +PONG, a -NOAUTH), at most SECONDS.
wait_for_port() { # wait_for_port PORT PID LOGFILE SECONDS
    local port=$1 pid=$2 log=$3 seconds=$4 i line
    for ((i = 0; i < seconds * 10; i++)); do
        kill -0 "$pid" 2>/dev/null || { tail -n 20 "$log" >&2; say "error: the process on port $port ended at once"; return 1; }
        line=
        if { exec 3<>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null; then
            printf 'PING\r\n' >&3
            read -r -t 2 line <&3
            exec 3>&- 3<&-
            case $line in +PONG* | -NOAUTH*) return 0 ;; esac
        fi
        sleep 0.1
    done
    tail -n 20 "$log" >&2
    say "error: no answer on port $port within $seconds s"
    return 1
}

# Starts a redis-server as the suite wants it. Sets redis_port.
start_redis() { # start_redis [more options]
    free_port redis_port
    mkdir -p "$work_dir/redis-$redis_port"
    redis-server --port "$redis_port" --bind 127.0.0.1 --dir "$work_dir/redis-$redis_port" --save "" --appendonly no \
        --enable-protected-configs yes --enable-debug-command yes --enable-module-command yes "$@" \
        >"$work_dir/redis-$redis_port.log" 2>&1 &
    started_pids+=($!)
    wait_for_port "$redis_port" $! "$work_dir/redis-$redis_port.log" 10 || exit 2
}

# Puts the wanted target in front of redis_port. Sets target_port.
start_target() { # start_target raw|forwarder|none|log|faster
    local target=$1 dll
    case $target in
        raw) target_port=$redis_port; return ;;
        forwarder)
            need_tools haproxy
            free_port target_port
            cat >"$work_dir/haproxy.cfg" <<CFG
global
    maxconn 8000
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
listen redis
    bind 127.0.0.1:$target_port
    server redis 127.0.0.1:$redis_port
CFG
            haproxy -f "$work_dir/haproxy.cfg" >"$work_dir/target.log" 2>&1 & ;;
        none | log | faster)
            need_tools dotnet
            dll=${SLOGGER_DLL:-$(find_slogger)}
            [ -f "$dll" ] || fail "no slogger.dll: build it (dotnet build src/Slogger.Cli -c Release) or set SLOGGER_DLL"
            free_port target_port
            mkdir -p "$work_dir/data"
            local store=(--redis "127.0.0.1:$redis_port" --commit "$target")
            # The embedded store is the proxy's own: the Redis beside it stands idle.
            [ "$target" != faster ] || store=()
            # SLOGGER_EXTRA_OPTIONS: more options of `slogger serve`, for experiments.
            # shellcheck disable=SC2086
            env -u SLOGGER_DLL -u SLOGGER_EXTRA_OPTIONS -u SLOGGER_EXTERNAL_PORTS -u SLOGGER_EXTERNAL_CACHE \
                dotnet "$dll" serve --listen "127.0.0.1:$target_port" "${store[@]}" \
                --data "$work_dir/data" ${SLOGGER_EXTRA_OPTIONS:-} >"$work_dir/target.log" 2>&1 & ;;
        *) fail "unknown target $target (raw, forwarder, none, log, faster)" ;;
    esac
    started_pids+=($!)
    wait_for_port "$target_port" $! "$work_dir/target.log" 30 || exit 2
}

find_slogger() {
    local found
    found=$(find "$repo_dir/src/Slogger.Cli/bin/Release" "$repo_dir/artifacts" -name slogger.dll -not -path '*/ref*/*' \
        -printf '%T@ %p\n' 2>/dev/null | sort -rn | head -n 1)
    printf '%s' "${found#* }"
}

# Fetches the client libraries (clients/package.json) into the cache. Sets clients_dir.
install_clients() {
    clients_dir=$cache_dir/clients
    if ! cmp -s "$external_dir/clients/package.json" "$clients_dir/.installed"; then
        mkdir -p "$clients_dir"
        rm -f "$clients_dir/package-lock.json"
        cp "$external_dir/clients/package.json" "$clients_dir/package.json"
        (cd "$clients_dir" && timeout 300 npm install --no-audit --no-fund --ignore-scripts --loglevel=error) >&2 ||
            unavailable "the client libraries cannot be installed"
        cp "$external_dir/clients/package.json" "$clients_dir/.installed"
    fi
}

# --- Redis's sources -------------------------------------------------------------------------------------------------

# Writes deb-src lines to stdout for the mirrors that this machine is configured with: the one that serves its release
# and the one that serves its security updates. Understands sources.list and deb822 .sources files.
derive_source_lines() {
    local etc list parts codename
    eval "$(apt-config shell list Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d)"
    codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
    cat "${list:-/dev/null}" "${parts:-/nonexistent}"/*.list "${parts:-/nonexistent}"/*.sources 2>/dev/null |
        awk -v codename="$codename" -v wanted=bookworm '
        function offer(uri, suite, key) {
            if (suite == codename && !("main" in seen)) { seen["main"] = 1; print_line(uri, wanted, key) }
            if (suite == codename "-security" && !("security" in seen)) { seen["security"] = 1; print_line(uri, wanted "-security", key) }
        }
        function print_line(uri, suite, key) {
            print "deb-src " (key != "" ? "[signed-by=" key "] " : "") uri " " suite " main"
        }
        function flush_stanza(   i, j, n, m, u, s) {
            n = split(uris, u, " "); m = split(suites, s, " ")
            if (types ~ /deb/ && enabled != "no")
                for (i = 1; i <= n; i++) for (j = 1; j <= m; j++) offer(u[i], s[j], key)
            types = uris = suites = key = enabled = ""
        }
        /^[[:space:]]*#/ { next }
        /^(Types|URIs|Suites|Signed-By|Enabled):/ {
            field = $1; sub(/:.*/, "", field); value = $0; sub(/^[^:]*:[[:space:]]*/, "", value)
            if (field == "Types" && types != "") flush_stanza()
            if (field == "Types") types = value
            if (field == "URIs") uris = value
            if (field == "Suites") suites = value
            if (field == "Signed-By") key = value
            if (field == "Enabled") enabled = value
            next
        }
        /^[[:space:]]*$/ { flush_stanza(); next }
        $1 == "deb" || $1 == "deb-src" {
            flush_stanza()
            key = ""; start = 2
            if ($2 ~ /^\[/) {
                for (start = 2; start <= NF && $start !~ /\]$/; start++) ;
                start++
                if (match($0, /signed-by=[^] ]*/)) key = substr($0, RSTART + 10, RLENGTH - 10)
            }
            offer($start, $(start + 1), key); key = ""
        }
        END { flush_stanza() }'
}

# Fetches and unpacks the sources once; sets suite_dir. Ends with exit_unavailable when they cannot be had.
ensure_sources() {
    local apt_dir lines dsc tree="$cache_dir/redis-$redis_version"
    suite_dir=$tree
    if [ ! -f "$tree/.ready" ]; then
        need_tools apt-get apt-config dpkg-source
        lines=$(derive_source_lines)
        [ -n "$lines" ] || unavailable "no Debian mirror is configured here to fetch Redis's sources from"
        apt_dir="$cache_dir/apt"
        mkdir -p "$apt_dir/lists/partial" "$apt_dir/cache/archives/partial" "$apt_dir/parts" "$apt_dir/download"
        printf '%s\n' "$lines" >"$apt_dir/sources.list"
        local options=(-o "Dir::Etc::sourcelist=$apt_dir/sources.list" -o "Dir::Etc::sourceparts=$apt_dir/parts"
            -o "Dir::State::lists=$apt_dir/lists" -o "Dir::Cache=$apt_dir/cache" -o "Debug::NoLocking=true"
            -o "APT::Update::Post-Invoke-Success=" -o "APT::Update::Post-Invoke=" -o "Acquire::Retries=2"
            -o "APT::Get::List-Cleanup=false" -q)
        [ "$(id -u)" -ne 0 ] || options+=(-o "APT::Sandbox::User=root")
        say "fetching Redis $redis_version's sources (once, into $cache_dir)"
        (
            cd "$apt_dir/download" || exit 1
            timeout 300 apt-get "${options[@]}" update && timeout 300 apt-get "${options[@]}" source --download-only redis
        ) >"$apt_dir/log" 2>&1 || { tail -n 15 "$apt_dir/log" >&2; unavailable "Redis's sources cannot be fetched"; }
        dsc=$(find "$apt_dir/download" -name "redis_$redis_version-*.dsc" | sort -V | tail -n 1)
        [ -n "$dsc" ] || unavailable "the mirror has another version of Redis than $redis_version"
        rm -rf "$tree"
        # With Debian's patches a backported test would fail on raw Redis too.
        dpkg-source --skip-patches -x "$dsc" "$tree" >>"$apt_dir/log" 2>&1 ||
            { tail -n 15 "$apt_dir/log" >&2; fail "cannot unpack $dsc"; }
        touch "$tree/.ready"
    fi
    local program
    for program in redis-cli redis-benchmark redis-server; do
        ln -sfn "$(command -v "$program")" "$tree/src/$program"
    done
}
