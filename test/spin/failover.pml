/* Watermark gating and failover of two streams: every interleaving, with every crash, of what Slogger.Core has in Receiver, WatermarkService and Failover. Slogger.Simulation's
 * SpinTests run it with VERSIONS=1, and with each of the mutations; by hand, and for more versions:
 *   spin -a -DVERSIONS=2 failover.pml && gcc -w -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -E -m1000000
 *
 * Left out are what a version holds (the simulator compares that), seeds, and the network but for what its delays do: a value that is read late, or never. A point of
 * history is its world-line times 4 plus its version, so that the order of numbers is that of points. Two world-lines: a recovery of the primary comes at any moment, once.
 */
#ifndef VERSIONS
#define VERSIONS 2
#endif
#define i _pid
#define POINT(l, v) ((l) * 4 + (v))
#define LINE(p) ((p) / 4)
#define VER(p) ((p) % 4)
#define MIN(a, b) ((a) < (b) -> (a) : (b))

/* The primary: each shard's log, what of it is durable, the recorded cut, and all that ever was one. */
byte log[2], dur[2], cut, line, branch;
bool recorded[8];

/* The backup: what the receivers have heard of the cut; their logs, appended and synced; the newest cut noted in each, and that of the notes which is synced. */
byte heard[2], app[2], syn[2], noted[2], held[2];

/* The watermark service's vector, and the newest watermark that was ever told. */
byte vec[2], told, least;
bool known[2];

/* Where the stores are. */
byte at[2];

/* The failover. */
bool taken, frozen[2], got[2], decided;
byte fin[2], final;

inline announce(w)
{
    assert(recorded[w]);                                   /* I4: watermark <= recorded cut */
    assert(held[0] >= w && held[1] >= w);                  /* durable at the backup, whatever happens */
    assert(!decided || w <= final);
    if :: w > told -> told = w :: else fi
}

/* All that can happen to a stream, at either site; what concerns both is done by one of them. */
active [2] proctype stream()
{
    d_step { recorded[0] = true }
    do
    /* ---- the primary ---- */
    :: d_step { LINE(log[i]) == line && VER(log[i]) < VERSIONS -> log[i]++ }
    :: d_step { dur[i] < log[i] -> dur[i] = log[i] }
    :: d_step { dur[i] < log[i] -> log[i] = dur[i] }                              /* its process dies */
    :: d_step { LINE(dur[0]) == line && LINE(dur[1]) == line && MIN(dur[0], dur[1]) > cut -> cut = MIN(dur[0], dur[1]); recorded[cut] = true }
    :: d_step { line == 0 ->                                                      /* a recovery: all go back to what the claims prove */
            branch = VER(MIN(dur[0], dur[1])); line = 1; cut = POINT(1, branch); recorded[cut] = true;
            assert(branch >= VER(told)) }                                            /* I4: watermark <= cut of any later recovery */
    :: d_step { LINE(log[i]) < line -> log[i] = POINT(1, branch); dur[i] = log[i] }  /* a shard enters it */
    /* ---- shipping ---- */
    :: d_step { !frozen[i] && LINE(app[i]) == LINE(dur[i]) && app[i] < dur[i] -> app[i]++ }
    :: d_step { !frozen[i] && LINE(app[i]) < LINE(dur[i]) && VER(app[i]) < branch -> app[i]++ }
    :: d_step { !frozen[i] && LINE(app[i]) < LINE(dur[i]) && VER(app[i]) >= branch -> app[i] = POINT(1, branch); assert(VER(at[i]) <= branch) }
#ifdef M_OWN
    :: d_step { !frozen[i] && heard[i] != dur[i] -> heard[i] = dur[i] }
#else
    :: d_step { !frozen[i] && heard[i] != cut && LINE(dur[i]) == line -> heard[i] = cut }
#endif
    /* ---- the receivers ---- */
#ifdef M_NOLINE
    :: d_step { !frozen[i] && heard[i] > noted[i] && VER(heard[i]) <= VER(app[i]) -> noted[i] = heard[i] }
#else
    :: d_step { !frozen[i] && heard[i] > noted[i] && heard[i] <= app[i] -> noted[i] = heard[i];
            /* the primary has durable what the cut says, and so it is the same here */
            assert(noted[i] <= dur[i]) }
#endif
    :: d_step { syn[i] < app[i] || held[i] < noted[i] -> syn[i] = app[i]; held[i] = noted[i] }
    :: d_step { app[i] = syn[i]; noted[i] = held[i]; heard[i] = 0;              /* its process dies, or the machine; the store, too */
#ifdef M_FREEZEFORGOTTEN
            frozen[i] = false;
#endif
            at[i] = 0;
#ifdef M_NOTENOTDURABLE
            noted[i] = 0; held[i] = 0;
#endif
          }
#ifdef M_APPLIES
    :: d_step { !frozen[i] && held[i] > at[i] -> at[i] = held[i]; assert(at[i] <= told) }
#else
    :: d_step { !frozen[i] && told > at[i] && told <= held[i] -> at[i] = told }
#endif
    /* ---- the watermark service: it hears of what is held, late ---- */
#ifdef M_RECEIPT
    :: d_step { !known[i] || vec[i] < noted[i] -> vec[i] = noted[i]; known[i] = true }
#else
    :: d_step { !known[i] || vec[i] < held[i] -> vec[i] = held[i]; known[i] = true }
#endif
    :: d_step { known[0] || known[1] -> known[0] = false; known[1] = false; vec[0] = 0; vec[1] = 0 }    /* another one starts */
#ifdef M_BEFOREALL
    :: d_step { known[i] && vec[i] > told -> announce(vec[i]) }
#else
    :: d_step { known[0] && known[1] && MIN(vec[0], vec[1]) > told -> least = MIN(vec[0], vec[1]); announce(least); least = 0 }
#endif
    /* ---- failover ---- */
    :: d_step { !taken -> taken = true }
    :: d_step { taken && !frozen[i] -> frozen[i] = true }
#ifdef M_STALEFINAL
    :: d_step { taken && !got[i] -> fin[i] = vec[i]; got[i] = true }
#else
    :: d_step { frozen[i] && !got[i] && app[i] == syn[i] && noted[i] == held[i] -> fin[i] = held[i]; got[i] = true }
#endif
#ifdef M_FINALBEFOREALL
    :: d_step { got[i] && !decided -> final = fin[i];
#else
    :: d_step { got[0] && got[1] && !decided -> final = MIN(fin[0], fin[1]);
#endif
            decided = true;
            assert(recorded[final]);
            assert(final >= told);                                                    /* all that any watermark held is there */
            assert(final >= at[0] && final >= at[1]);                                 /* nothing that was applied is taken back */
            assert(held[0] >= final && held[1] >= final) }
    :: d_step { decided && at[i] < final -> at[i] = final }
    od
}
