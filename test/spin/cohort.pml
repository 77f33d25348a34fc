/* A cohort of three nodes that replicate a log: every interleaving of appends, syncs, acknowledgements, crashes and elections that
 * Slogger.Core.Cohorts allows. Slogger.Simulation's SpinTests run it, and with each rule switched off; by hand:
 *   spin -a cohort.pml && gcc -w -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -E -n -m1000000
 *
 * A log is a sequence of entries. An entry is named by the reign in which it was made; the first entry of a reign is its record. A reign is
 * led by one node: so two entries of one reign at one place are the same entry.
 * Messages are left out, but for what delay and loss do. A leader that does not know of its end goes on sending. What a follower has
 * acknowledged is what it had synced at some time, so it is read late. Leases are another model (lease.pml).
 */
#ifndef LENGTH
#define LENGTH 3
#endif
#ifndef REIGNS
#define REIGNS 3
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#define NODES 3
#define ENTRY(n, k) log[(n) * LENGTH + (k)]
#define ACKED(l, f) acked[(l) * NODES + (f)]
#define LAST(n) (appended[n] == 0 -> 0 : ENTRY(n, appended[n] - 1))

byte log[NODES * LENGTH];       /* 0: nothing is there */
byte appended[NODES], synced[NODES];
byte promise[NODES];            /* durable */
byte leads[NODES];              /* the reign that the node leads, as far as it knows; 0: none */
byte acked[NODES * NODES];      /* what a leader knows of a follower */
byte executed[NODES];           /* by the node's store: what it knows to be committed */
byte history[LENGTH];           /* all that was ever committed */
byte reigns, crashes;
byte n, f, k, a, b, c;          /* always 0 between two steps */

#ifdef M_AnyLogWins
#define NEW_ENOUGH(candidate, voter) true
#else
#ifdef M_LongestLogWins
#define NEW_ENOUGH(candidate, voter) (appended[candidate] >= appended[voter])
#else
#define NEW_ENOUGH(candidate, voter) (LAST(candidate) > LAST(voter) || \
    (LAST(candidate) == LAST(voter) && appended[candidate] >= appended[voter]))
#endif
#endif
#ifdef M_AckBeforeSync
#define ACKNOWLEDGED(n) appended[n]
#else
#define ACKNOWLEDGED(n) synced[n]
#endif
#ifdef M_OldLeaderObeyed
#define OBEYS(f, l) true
#else
#define OBEYS(f, l) (leads[l] >= promise[f])
#endif

inline others(me)               /* f: one of the other two */
{
    if :: f = (me + 1) % NODES :: f = (me + 2) % NODES fi
}

inline common(x, y, most)       /* k: so much of two logs is the same */
{
    k = 0;
    do :: k < most && k < appended[x] && k < appended[y] && ENTRY(x, k) == ENTRY(y, k) -> k++ :: else -> break od
}

inline forget()
{
    k = 0; do :: k < NODES -> ACKED(n, k) = 0; k++ :: else -> break od; k = 0
}

/* The follower's log becomes a beginning of the leader's, and takes one entry more. */
inline take()
{
    common(n, f, LENGTH);
    if
    :: k < appended[f] && k < appended[n] ->
        assert(executed[f] <= k);                           /* R4: nothing that a store has executed is ever void */
        a = k; do :: a < appended[f] -> ENTRY(f, a) = 0; a++ :: else -> break od; a = 0;
        appended[f] = k;
        if :: synced[f] > k -> synced[f] = k :: else fi
    :: else
    fi;
    if :: k == appended[f] && k < appended[n] -> ENTRY(f, k) = ENTRY(n, k); appended[f]++ :: else fi;
    k = 0
}

inline count()                  /* c: what two of the three have, as the leader knows */
{
    a = synced[n]; b = ACKED(n, (n + 1) % NODES); c = ACKED(n, (n + 2) % NODES);
#ifdef M_MinorityCounts
    c = a;
#else
    if :: a > b -> k = a; a = b; b = k :: else fi;          /* a <= b */
    if :: c < a -> c = a :: c > b -> c = b :: else fi       /* the one in the middle */
#endif
}

inline commit()
{
    k = 0;
    do
    :: k < c ->
        assert(history[k] == 0 || history[k] == ENTRY(n, k));   /* R1: what was committed is never another one */
        history[k] = ENTRY(n, k); k++
    :: else -> break
    od;
    if :: c > executed[n] -> executed[n] = c :: else fi
}

active proctype cohort()
{
    bool wins;
    d_step { reigns = 1; leads[0] = 1; history[0] = 1;
        do :: k < NODES -> promise[k] = 1; appended[k] = 1; synced[k] = 1; ENTRY(k, 0) = 1; executed[k] = 1; k++ :: else -> break od; k = 0 }
    do
    :: if :: n = 0 :: n = 1 :: n = 2 fi;
       if
       /* A leader appends. */
       :: d_step { leads[n] && appended[n] < LENGTH -> ENTRY(n, appended[n]) = leads[n]; appended[n]++ }
       /* A node syncs. */
       :: d_step { synced[n] < appended[n] -> synced[n] = appended[n] }
       /* A node dies, and starts again: what is not synced is gone, and all that was in memory. */
       :: d_step { crashes < CRASHES -> crashes++;
            k = synced[n]; do :: k < appended[n] -> ENTRY(n, k) = 0; k++ :: else -> break od; k = 0;
            appended[n] = synced[n]; leads[n] = 0; executed[n] = 1;
#ifdef M_PromiseNotDurable
            promise[n] = 0;
#endif
            forget() }
       /* A leader gives up. */
       :: d_step { leads[n] -> leads[n] = 0; forget() }
       /* A follower receives what a leader sends. */
       :: leads[n] -> others(n);
          d_step { if
            :: OBEYS(f, n) && (leads[f] == 0 || leads[f] < leads[n]) ->
                leads[f] = 0;
                if :: leads[n] > promise[f] -> promise[f] = leads[n] :: else fi;
                take()
            :: else
            fi; f = 0 }
       /* A leader hears what a follower of its reign has synced. */
       :: leads[n] -> others(n);
          d_step { if
            :: promise[f] == leads[n] && leads[f] == 0 -> common(f, n, ACKNOWLEDGED(f)); ACKED(n, f) = k; k = 0
            :: else
            fi; f = 0 }
       /* A majority has it. It counts if its newest is of this reign. */
       :: d_step { leads[n] -> count();
#ifdef M_OldReignCounts
            if :: c > 0 -> commit() :: else fi;
#else
            if :: c > 0 && ENTRY(n, c - 1) == leads[n] -> commit() :: else fi;
#endif
            a = 0; b = 0; c = 0; k = 0 }
       /* A follower hears what is committed. */
       :: leads[n] -> others(n);
          d_step { if
            :: promise[f] == leads[n] && leads[f] == 0 -> common(f, n, executed[n]);
                if :: k > executed[f] -> executed[f] = k :: else fi; k = 0
            :: else
            fi; f = 0 }
       /* A node stands, and another one votes. The answer may be lost. */
       :: leads[n] == 0 && reigns < REIGNS -> others(n);
          d_step { reigns++; promise[n] = reigns;
            wins = promise[f] < reigns && NEW_ENOUGH(n, f);
#ifdef M_MinorityElects
            wins = true;
#endif
            if :: wins -> promise[f] = reigns; leads[f] = 0 :: else fi; f = 0 };
          if
          :: d_step { wins -> wins = false; leads[n] = reigns; forget();
                do
                :: k < LENGTH -> assert(history[k] == 0 || (k < appended[n] && ENTRY(n, k) == history[k])); k++   /* R2 */
                :: else -> break
                od; k = 0;
                if :: appended[n] < LENGTH -> ENTRY(n, appended[n]) = leads[n]; appended[n]++ :: else fi    /* its record */
            }
          :: d_step { wins = false }
          fi
       :: else
       fi; n = 0
    od
}
