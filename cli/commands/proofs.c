/* troupe proofs: what proofs have found, of all actors. */
#include "commands.h"
#include "commands/cache/cache.h"
#include "ui/options.h"
#include "ui/ui.h"

#include "tuning/verdict.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEXT = 256 };

typedef struct listing {
    bool json, rejected;
    const char *actor; /* NULL: all */
    uint64_t count[TRP__VERDICT_STATES], shown;
} listing;

/* Finds the actor of a plan: the kind of an entry begins with its name. */
static void find_actor(const trp__entry *entry, char out[TEXT])
{
    trp__inspect_field(entry, TRP__KEY_KIND, out, TEXT);
    out[strcspn(out, " ")] = '\0';
}

static void list_json(const trp__entry *entry, const trp__verdict *verdict, bool first)
{
    static const struct {
        const char *name;
        uint32_t tag;
    } fields[] = {{"problem", TRP__KEY_NAME},
                  {"plan", TRP__KEY_OPTION},
                  {"library", TRP__KEY_COMPILER},
                  {"target", TRP__KEY_TARGET}};
    char text[TEXT];
    find_actor(entry, text);
    printf("%s\n  {\"verdict\": \"%s\", \"actor\": \"%s\"", first ? "" : ",",
           trp__verdict_name(verdict->state), text);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        trp__inspect_field(entry, fields[i].tag, text, sizeof text);
        printf(", \"%s\": ", fields[i].name);
        ui_json_string(text);
    }
    printf(", \"compared\": %" PRIu32 ", \"reason\": ", verdict->compared);
    ui_json_string(verdict->reason);
    putchar('}');
}

static bool list_one(void *context, const trp__entry *entry, const trp__verdict *verdict)
{
    listing *l = context;
    char actor[TEXT], problem[TEXT], plan[TEXT];
    find_actor(entry, actor);
    if (l->actor && strcmp(l->actor, actor) != 0)
        return true;
    l->count[verdict->state]++;
    if (verdict->state == TRP__VERDICT_UNKNOWN ||
        (l->rejected && verdict->state != TRP__VERDICT_REJECTED))
        return true;
    trp__inspect_field(entry, TRP__KEY_NAME, problem, sizeof problem);
    trp__inspect_field(entry, TRP__KEY_OPTION, plan, sizeof plan);
    if (l->json)
        list_json(entry, verdict, l->shown == 0);
    else
        ui_line("%-8s  %-7s  %-24s  %s%s%s", trp__verdict_name(verdict->state), actor, plan,
                problem, verdict->reason[0] ? ": " : "", verdict->reason);
    l->shown++;
    return true;
}

int command_proofs(int argc, char **argv)
{
    listing l = {0};
    trp__store *store;
    trp_error error;
    int exit_status;
    const option options[] = {
        {0, "json", NULL, "as JSON", OPTION_FLAG, &l.json, NULL},
        {0, "actor", "NAME", "only proofs of dnn, matmul or cutlass", OPTION_TEXT, &l.actor, NULL},
        {0, "rejected", NULL, "only rejected plans", OPTION_FLAG, &l.rejected, NULL},
    };
    const struct command command = {
        .name = "proofs",
        .operands = "",
        .about =
            "Lists what proofs have found about engines of cuDNN, algorithms of cuBLASLt and\n"
            "kernels of CUTLASS: the verdict, the actor, the engine, algorithm or kernel, the\n"
            "problem, and the reason. 'proving' is one that a worker is at, or died of. Those of\n"
            "packs come first.",
        OPTIONS_OF(options),
    };
    if (!options_parse(&command, argc, argv, &exit_status))
        return exit_status;
    if (!cache_open(&store, false))
        return EXIT_FAILED;
    if (l.json)
        printf("[");
    trp_status status = trp__verdicts_list(store, list_one, &l, &error);
    if (l.json)
        printf("\n]\n");
    else
        ui_line("%" PRIu64 " proven, %" PRIu64 " rejected", l.count[TRP__VERDICT_PROVEN],
                l.count[TRP__VERDICT_REJECTED]);
    trp__store_close(store);
    if (status != TRP_OK)
        ui_error("%s", error.message);
    return status == TRP_OK ? EXIT_DONE : EXIT_FAILED;
}
