/* The order of locks is checked where assertions are compiled in: a thread that takes one while it
 * holds another of the same or a later rank ends the program. SPDX-License-Identifier: Apache-2.0
 */
#include "base/os/lock.h"
#include "support/label.h"
#include "wire/rank.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/unit.h"

TROUPE_TEST("no tsan");

static trp__lock memory = TRP__LOCK_INITIAL(TRP__RANK_MEMORY);
static trp__lock device = TRP__LOCK_INITIAL(TRP__RANK_DEVICE);
static trp__lock other = TRP__LOCK_INITIAL(TRP__RANK_DEVICE);

/* Whether a process that does this is ended by a signal. */
static bool aborts(void (*act)(void))
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(nowhere, 2);
        act();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGABRT : WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

static void in_order(void)
{
    for (int i = 0; i < 2; i++) {
        trp__lock_take(&memory);
        trp__lock_take(&device);
        trp__lock_drop(&device);
        trp__lock_take(&other);
        trp__lock_drop(&memory); /* whichever is given up first */
        trp__lock_drop(&other);
    }
}

static void against_order(void)
{
    trp__lock_take(&device);
    trp__lock_take(&memory);
}

static void two_of_a_rank(void)
{
    trp__lock_take(&device);
    trp__lock_take(&other);
}

static void after_one_was_given_up(void)
{
    trp__lock_take(&memory);
    trp__lock_take(&device);
    trp__lock_drop(&memory);
    trp__lock_take(&memory);
}

/* Trying does not wait, so it is free of the order; what is held then counts. */
static void trying(void)
{
    trp__lock_take(&device);
    if (!trp__lock_try(&memory))
        _exit(1);
    trp__lock_drop(&device);
    trp__lock_take(&device);
    if (trp__lock_try(&device))
        _exit(1);
}

static void order_is_checked(void **unused)
{
    (void)unused;
    assert_false(aborts(in_order));
    assert_false(aborts(trying));
#ifdef NDEBUG
    const bool checked = false;
#else
    const bool checked = true;
#endif
    assert_int_equal(aborts(against_order), checked);
    assert_int_equal(aborts(two_of_a_rank), checked);
    assert_int_equal(aborts(after_one_was_given_up), checked);
}

UNIT_MAIN(UNIT(order_is_checked))
