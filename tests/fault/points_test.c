/* Every fault point of the library (src/base/fault_point.h) with every action that means something
 * there: a worker that dies at it, once, later, and again and again; an application that dies at
 * it; workers that the application finds dead there; a process that is late; a step that fails.
 * Each walk is the life of one application, in a process of its own (support/faults/walk.h).
 *
 * The walks are made from the table, so a new point is walked without a change here. A point that
 * no walk comes to, or at which an action never happened, fails the test. Without TROUPE_TEST_ALL
 * each point and action has its walk, but which hit it is, is random; under ASan each point has one
 * or two of its actions, under TSan every fourth point.
 *
 * By hand: points_test --walk SCENARIO strict|relaxed|down, with TROUPE_FAULT_POINT set. */
#include "support/harness.h"
#include "support/faults/points.h"
#include "support/faults/walk.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

TROUPE_TEST("long", "many workers");

enum { MAX_WALKS = 1024, MAX_POINTS = 256, AT_A_TIME = 4, BATCH = 12, TRIES = 6 };

#define WALK_LIMIT   (2 * H_LONG)
#define ORPHAN_LIMIT H_LONG

typedef struct job {
    h_walk walk;
    char plan[1024];
    int point;      /* that the plan is about; -1: none, or several */
    uint32_t first; /* the hit with which the action begins; */
    bool dies;      /* the application kills itself, if it comes to that */
    const char *action;
    int tries; /* walks that did not come to it */
    /* while it runs: */
    pid_t pid;
    char hits_file[300];
    uint32_t *hits;
    int64_t started;
    bool ended; /* the application; its workers may not have */
} job;

static job jobs[MAX_WALKS];
static size_t job_count;
static const h_point *points;
static size_t point_count;
static uint64_t total_hits[MAX_POINTS];
static uint32_t scenario_hits[H_WALK_SCENARIOS][MAX_POINTS];

/* What makes a scenario, before any other plan. */
static const char *const scenario_plan[H_WALK_SCENARIOS] = {
    [H_WALK_PLAIN] = "",
    [H_WALK_FAULTS] = "",
    [H_WALK_BROKEN] = "ISSUE_ERROR_HEALTH:1:fail",
    [H_WALK_LACKING] = "ARENA_MAPPING:3:fail",
};

static const char *const scenario_name[H_WALK_SCENARIOS] = {
    [H_WALK_PLAIN] = "plain",
    [H_WALK_FAULTS] = "faults",
    [H_WALK_BROKEN] = "broken",
    [H_WALK_LACKING] = "lacking",
};

/* ---- running walks, several at a time ---- */

static void make_hits(job *j)
{
    size_t bytes = point_count * sizeof *j->hits;
    const char *folder = getenv("TMPDIR");
    snprintf(j->hits_file, sizeof j->hits_file, "%s/hits-XXXXXX", folder ? folder : "/tmp");
    int fd = mkstemp(j->hits_file);
    H_CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    j->hits = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    H_CHECK(j->hits != MAP_FAILED);
    close(fd);
}

static void end_hits(job *j)
{
    munmap(j->hits, point_count * sizeof *j->hits);
    unlink(j->hits_file);
}

static _Noreturn void be_walk(const job *j)
{
    const char *mood = j->walk.strict ? "strict" : j->walk.may_go_down ? "down" : "relaxed";
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("TROUPE_FAULT_POINT_HITS", j->hits_file, 1);
    setenv("TROUPE_FAULT_POINT", j->plan, 1);
    execl("/proc/self/exe", "points_test", "--walk", scenario_name[j->walk.scenario], mood,
          (char *)NULL);
    _exit(127);
}

static void start(job *j)
{
    make_hits(j);
    j->started = h_now();
    fflush(NULL);
    j->pid = fork();
    H_CHECK(j->pid >= 0);
    if (j->pid == 0)
        be_walk(j);
    setpgid(j->pid, j->pid); /* whoever is first */
}

static _Noreturn void fail(const job *j, const char *what)
{
    kill(-j->pid, SIGKILL);
    unlink(j->hits_file);
    h_fail(__FILE__, __LINE__, "walk %s%s, plan \"%s\": %s", scenario_name[j->walk.scenario],
           j->walk.strict ? ", strict" : "", j->plan, what);
}

static void check_exit(const job *j, int status)
{
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!well && !(j->dies && killed))
        fail(j, "it failed");
    if (j->dies && well && j->hits[j->point] >= j->first)
        fail(j, "the application came to the point and did not die");
}

/* Workers of an application that was killed come to us, and must end by themselves. True if none is
 * left. They are of its process group. */
static bool is_over(job *j)
{
    int status = 0;
    pid_t pid;
    while ((pid = waitpid(-j->pid, &status, WNOHANG)) > 0) {
        if (pid != j->pid)
            continue;
        check_exit(j, status);
        j->ended = true;
        j->started = h_now();
    }
    if (pid < 0 && errno == ECHILD) {
        H_CHECK(j->ended);
        return true;
    }
    if (h_now() - j->started > (j->ended ? ORPHAN_LIMIT : WALK_LIMIT))
        fail(j, j->ended ? "processes outlive the application" : "it does not end");
    return false;
}

static void note_hits(job *j)
{
    for (size_t p = 0; p < point_count; p++)
        total_hits[p] += j->hits[p];
}

static void run_jobs(size_t first, void (*done)(job *))
{
    size_t running[AT_A_TIME], count = 0, next = first;
    while (next < job_count || count > 0) {
        while (count < AT_A_TIME && next < job_count) {
            start(&jobs[next]);
            running[count++] = next++;
        }
        bool any = false;
        for (size_t i = 0; i < count;) {
            job *j = &jobs[running[i]];
            if (!is_over(j)) {
                i++;
                continue;
            }
            done(j);
            end_hits(j);
            running[i] = running[--count];
            any = true;
        }
        if (!any)
            h_sleep(H_MS);
    }
}

static job *add(h_scenario scenario, bool strict, bool may_go_down)
{
    H_CHECK(job_count < MAX_WALKS);
    job *j = &jobs[job_count++];
    *j = (job){.walk = {.scenario = scenario, .strict = strict, .may_go_down = may_go_down},
               .point = -1};
    snprintf(j->plan, sizeof j->plan, "%s", scenario_plan[scenario]);
    return j;
}

static void append(job *j, size_t point, const char *range, const char *action)
{
    size_t used = strlen(j->plan);
    int more = snprintf(j->plan + used, sizeof j->plan - used, "%s%s:%s:%s", used ? "," : "",
                        points[point].name, range, action);
    H_CHECK(more > 0 && (size_t)more < sizeof j->plan - used);
}

/* One walk with one action at a point, at hit `first`. */
static job *add_action(h_scenario scenario, size_t point, uint32_t first, const char *action)
{
    char range[24];
    job *j = add(scenario, false, false);
    snprintf(range, sizeof range, "%u", first);
    append(j, point, range, action);
    j->point = (int)point;
    j->first = first;
    j->action = action;
    return j;
}

/* ---- which walks ---- */

static void note_scenario(job *j)
{
    for (size_t p = 0; p < point_count; p++)
        if (scenario_hits[j->walk.scenario][p] < j->hits[p])
            scenario_hits[j->walk.scenario][p] = j->hits[p];
    note_hits(j);
}

static bool all_hit(void)
{
    size_t p = 0;
    while (p < point_count && total_hits[p] > 0)
        p++;
    return p == point_count;
}

/* How often each scenario comes to each point when nothing else happens. What a worker does at its
 * end it may do too late to be counted, so this has several tries. */
static void count_hits(void)
{
    for (int try = 0; try < TRIES && !all_hit(); try++) {
        size_t first = job_count;
        for (int s = 0; s < H_WALK_SCENARIOS; s++)
            add((h_scenario)s, true, false);
        run_jobs(first, note_scenario);
    }
}

/* The first scenario from `from` on that comes to a point. */
static h_scenario scenario_of(size_t point, h_scenario from)
{
    for (int s = (int)from; s < H_WALK_SCENARIOS; s++) {
        if (scenario_hits[s][point] > 0)
            return (h_scenario)s;
    }
    for (int s = 0; s < (int)from; s++) {
        if (scenario_hits[s][point] > 0)
            return (h_scenario)s;
    }
    h_fail(__FILE__, __LINE__, "no walk comes to the fault point %s", points[point].name);
}

/* A hit after the first, as often as the scenario has some. */
static uint32_t later_hit(h_scenario scenario, size_t point)
{
    uint32_t hits = scenario_hits[scenario][point];
    return hits > 1 ? 2 + (uint32_t)ref_rng_below(h_rng(), hits - 1) : 1;
}

static bool walks_all(void)
{
    return getenv("TROUPE_TEST_ALL") != NULL;
}

/* Of two ways one in the suite, both by hand. */
static void choose(bool ways[2])
{
    ways[0] = ref_rng_below(h_rng(), 2) == 0;
    ways[1] = walks_all() || !ways[0];
    ways[0] = walks_all() || ways[0];
}

/* No worker gets past a point any more: the budget ends that. */
static void workers_die(size_t point)
{
    job *j = add(H_WALK_FAULTS, false, true);
    append(j, point, "2+", "kill-self");
}

static void worker_dies(size_t point)
{
    bool ways[2];
    h_scenario plain = scenario_of(point, H_WALK_PLAIN);
    h_scenario faults = scenario_of(point, H_WALK_FAULTS);
    choose(ways);
    if (!H_SANITIZED || ways[0])
        add_action(plain, point, 1, "kill-self")->walk.strict = plain == H_WALK_PLAIN;
    if (H_SANITIZED && !walks_all() && ways[0])
        return;
    choose(ways);
    if (ways[0] || scenario_hits[H_WALK_FAULTS][point] < 2)
        add_action(faults, point, later_hit(faults, point), "kill-self");
    else
        workers_die(point);
    if (ways[0] && ways[1] && scenario_hits[H_WALK_FAULTS][point] >= 2)
        workers_die(point);
}

static void application_dies(size_t point)
{
    static const char *const actions[] = {"kill-self", "kill-active", "kill-successor"};
    h_scenario scenario = scenario_of(point, H_WALK_FAULTS);
    size_t one = ref_rng_below(h_rng(), 3);
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        bool ways[2];
        if (H_SANITIZED && !walks_all() && i != one)
            continue;
        choose(ways);
        if (ways[0])
            add_action(scenario, point, 1, actions[i])->dies = i == 0;
        if (ways[1])
            add_action(scenario, point, later_hit(scenario, point), actions[i])->dies = i == 0;
    }
}

static void step_fails(size_t point)
{
    for (int s = 0; s < H_WALK_SCENARIOS; s++) {
        if (strstr(scenario_plan[s], points[point].name))
            return; /* the scenario is about that, and was walked */
    }
    h_scenario scenario = scenario_of(point, H_WALK_FAULTS);
    add_action(scenario, point, 1, "fail");
    add_action(scenario, point, 2, "fail");
}

/* Somebody is late at a few points at a time; nothing else than the scenario's faults happens. */
static void be_late(h_scenario scenario)
{
    job *j = NULL;
    size_t in_plan = 0;
    for (size_t p = 0; p < point_count; p++) {
        if (scenario_of(p, H_WALK_FAULTS) != scenario)
            continue;
        if (in_plan++ % BATCH == 0)
            j = add(scenario, true, false);
        append(j, p, "1-3", "stall");
    }
}

/* A walk in which the action did not happen is walked again, with the first hit. */
static void note_walk(job *j)
{
    note_hits(j);
    if (j->point < 0 || j->hits[j->point] >= j->first)
        return;
    if (j->tries == TRIES)
        fail(j, "nobody comes to the point");
    job *again = add_action(j->walk.scenario, (size_t)j->point, 1, j->action);
    again->walk = j->walk;
    again->dies = j->dies;
    again->tries = j->tries + 1;
}

static void walk_all(void)
{
    points = h_points(&point_count);
    H_CHECK(point_count <= MAX_POINTS);
    H_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    count_hits();
    size_t counted = job_count;
    for (size_t p = 0; p < point_count; p++) {
        if (H_SANITIZED && !walks_all() && ref_rng_below(h_rng(), H_TSAN ? 4 : 2) != 0)
            continue;
        if (points[p].in_worker)
            worker_dies(p);
        else
            application_dies(p);
        if (points[p].can_fail)
            step_fails(p);
    }
    for (int s = H_WALK_FAULTS; s < H_WALK_SCENARIOS; s++)
        be_late((h_scenario)s);
    run_jobs(counted, note_walk);
    uint64_t hits = 0;
    for (size_t p = 0; p < point_count; p++)
        hits += total_hits[p];
    printf("  %zu points, %zu walks, %" PRIu64 " hits\n", point_count, job_count, hits);
}

/* ---- one walk ---- */

static h_walk asked_for(const char *scenario, const char *mood)
{
    h_walk walk = {.strict = strcmp(mood, "strict") == 0, .may_go_down = strcmp(mood, "down") == 0};
    while (walk.scenario < H_WALK_SCENARIOS && strcmp(scenario_name[walk.scenario], scenario) != 0)
        walk.scenario++;
    H_CHECK(walk.scenario < H_WALK_SCENARIOS);
    return walk;
}

static h_walk this_walk;

static void walk_one(void)
{
    h_walk_run(&this_walk);
}

int main(int argc, char **argv)
{
    static const h_case all[] = {H_CASE(walk_all)}, one[] = {H_CASE(walk_one)};
    h_need_process_isolation();
    if (!h_points_built()) {
        printf("skipped: this build has no fault points (TROUPE_FAULT_POINTS)\n");
        return H_EXIT_SKIPPED;
    }
    if (h_is_cuda()) {
        printf("skipped: the walks are counted for the host backend; gpu/driver_calls walks "
               "CUDA's\n");
        return H_EXIT_SKIPPED;
    }
    if (argc == 4 && strcmp(argv[1], "--walk") == 0) {
        this_walk = asked_for(argv[2], argv[3]);
        return h_main(1, argv, one, 1);
    }
    return h_main(argc, argv, all, 1);
}
