/* The leader's lease, with clocks that do not agree: every interleaving of beats, echoes, starts and strong reads. True time goes in ticks;
 * each clock may gain one tick, at any moment. 0 leads; 1 follows; 2 stands when it likes, and 1 may vote for it.
 *   spin -a lease.pml && gcc -w -O2 -DSAFETY -o pan pan.c && ./pan -E -m1000000
 *
 * The lease runs for LEASE ticks from when the leader sent what was echoed; the follower's grant runs for a tick more, from when it received
 * that. A read is executed, and is let out at any later moment at which the lease holds.
 */
#define LEASE 3
#define END 12
#define LASTBEAT 6
#ifdef M_NoDrift
#define GRANT LEASE
#else
#define GRANT (LEASE + 1)
#endif
#define CLOCK(i) (now + gained[i])

byte now;
byte gained[2];
byte leaseUntil, grantUntil;
bool onTheWay; byte sent;           /* a beat */
bool onTheWayBack; byte echo;       /* its echo */
bool isElected, hasCommitted;       /* the next reign */
bool hasRestarted, hasGranted;
bool isRead, isStale, isLookedAt;

active proctype world()
{
    do
    :: d_step { now < END -> now++ }
    :: d_step { now < END && gained[0] == 0 -> gained[0] = 1 }
    :: d_step { now < END && gained[1] == 0 -> gained[1] = 1 }
    /* A beat; it may be lost. */
    :: d_step { !onTheWay && now < LASTBEAT -> onTheWay = true; sent = CLOCK(0) }
    :: d_step { onTheWay -> onTheWay = false; sent = 0 }
    :: d_step { onTheWay && !isElected && !onTheWayBack -> onTheWay = false; hasGranted = true; grantUntil = CLOCK(1) + GRANT;
            onTheWayBack = true; echo = sent; sent = 0 }
    /* Its echo. */
    :: d_step { onTheWayBack -> onTheWayBack = false;
#ifdef M_LeaseFromArrival
            echo = CLOCK(0);
#endif
            if :: echo + LEASE > leaseUntil -> leaseUntil = echo + LEASE :: else fi; echo = 0 }
    :: d_step { onTheWayBack -> onTheWayBack = false; echo = 0 }
    /* The follower starts anew: it does not know what it has granted. */
    :: d_step { !hasRestarted -> hasRestarted = true;
#ifdef M_NoWaitAtStart
            grantUntil = 0 }
#else
            grantUntil = CLOCK(1) + GRANT }
#endif
    /* It votes for 2. */
#ifdef M_GrantIgnored
    :: d_step { !isElected && (hasGranted || hasRestarted) -> isElected = true }
#else
    :: d_step { !isElected && (hasGranted || hasRestarted) && CLOCK(1) >= grantUntil -> isElected = true }
#endif
    :: d_step { isElected && !hasCommitted -> hasCommitted = true }
    /* A strong read: executed, looked at, let out. R5: no other reign had committed anything when it was executed. */
#ifdef M_LookBeforeRead
    :: d_step { !isLookedAt && CLOCK(0) < leaseUntil -> isLookedAt = true }
    :: d_step { isLookedAt && !isRead -> isRead = true; isStale = hasCommitted }
    :: d_step { isRead -> assert(!isStale); isRead = false; isLookedAt = false }
#else
    :: d_step { !isRead -> isRead = true; isStale = hasCommitted }
    :: d_step { isRead && CLOCK(0) < leaseUntil -> assert(!isStale); isRead = false; isStale = false }
    :: d_step { isRead && CLOCK(0) >= leaseUntil -> isRead = false; isStale = false }
#endif
    od
}
