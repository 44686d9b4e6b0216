/* troupe cache, on a cache that is filled here: each subcommand, as text and as JSON. */
#include "cache/disk.h"
#include "cache/key.h"
#include "cache/pack.h"
#include "cache/store.h"
#include "cli/commands/commands.h"
#include "support/folder.h"
#include "cli/data/json.h"
#include "support/label.h"

#include "support/unit.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TROUPE_TEST("no tsan");

static char folder[PATH_MAX - 256], entries[PATH_MAX - 128], pack[PATH_MAX - 128];
static char out[PATH_MAX - 128], err[PATH_MAX - 128], text[65536];

static void read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t bytes = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[bytes] = '\0';
    if (file)
        fclose(file);
}

/* Runs "troupe cache WORDS" with that exit status. */
static void run(int expected, const char *words)
{
    char line[256], *argv[16] = {0}, *rest = NULL;
    int argc = 0, status;
    snprintf(line, sizeof line, "troupe cache %s", words);
    for (char *w = strtok_r(line, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
        argv[argc++] = w;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen(out, "w", stdout) || !freopen(err, "w", stderr))
            _exit(99);
        status = commands_run(argc, argv);
        fflush(NULL);
        _exit(status);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != expected) {
        read_file(err);
        fail_msg("troupe cache %s: %x, expected %d\n%s", words, (unsigned)status, expected, text);
    }
}

static void says(const char *path, const char *words)
{
    read_file(path);
    if (!strstr(text, words))
        fail_msg("'%s' is not in: %s", words, text);
}

static cJSON *result(void)
{
    cJSON *all = json_read_file(out);
    assert_non_null(all);
    return all;
}

static trp__key key_of(const char *name, const char *option)
{
    trp__key key = {0};
    trp__key_begin(&key, "jit");
    trp__key_add_text(&key, TRP__KEY_COMPILER, "nvrtc 12.8.93");
    trp__key_add_text(&key, TRP__KEY_NAME, name);
    trp__key_add_text(&key, TRP__KEY_OPTION, option);
    trp__key_add_text(&key, TRP__KEY_TARGET, "sm_90a");
    trp__key_add_text(&key, TRP__KEY_OUTPUT, "cubin");
    return key;
}

static bool resolve(void *context, const char *name, const char *path, trp__hash *content)
{
    (void)context, (void)name, (void)path, (void)content;
    return false;
}

static trp__hash put(trp__store *store, const char *name, const char *option)
{
    trp__key key = key_of(name, option);
    trp__store_request request = {.key = &key, .resolve = resolve};
    trp__store_entry entry = {.payload = "the code", .bytes = 8};
    trp__hash hash = trp__key_hash(&key);
    assert_int_equal(trp__store_put(store, &request, &entry, NULL), TRP_OK);
    trp__key_end(&key);
    return hash;
}

static trp__hash fill(void)
{
    trp__store *store;
    assert_int_equal(trp__store_open(NULL, &store, NULL), TRP_OK);
    put(store, "other.cu", "-O1");
    trp__hash hash = put(store, "a \"b\"\n.cu", "-O2");
    put(store, "a \"b\"\n.cu", "-O3");
    trp__store_close(store);
    return hash;
}

static int setup(void **state)
{
    (void)state;
    h_folder_make(folder, sizeof folder, "troupe-cli-cache");
    snprintf(entries, sizeof entries, "%s/store", folder);
    snprintf(out, sizeof out, "%s/out", folder);
    snprintf(err, sizeof err, "%s/err", folder);
    snprintf(pack, sizeof pack, "%s/p.pack", folder);
    setenv("TROUPE_CACHE_DIR", folder, 1);
    unsetenv("TROUPE_CACHE_PACKS");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    h_folder_remove(folder);
    return 0;
}

static void usage(void **state)
{
    (void)state;
    static const char *const names[] = {"ls", "stat", "verify", "prune", "clear", "explain"};
    run(2, "");
    says(err, "expected a subcommand");
    run(2, "lsx");
    says(err, "unknown subcommand 'lsx'");
    run(2, "--json");
    says(err, "unknown option '--json'");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char words[64];
        run(0, "--help");
        says(out, names[i]);
        snprintf(words, sizeof words, "%s --help", names[i]);
        run(0, words);
        snprintf(words, sizeof words, "usage: troupe cache %s", names[i]);
        says(out, words);
        snprintf(words, sizeof words, "%s --no-such-option", names[i]);
        run(2, words);
        says(err, "unknown option");
        snprintf(words, sizeof words, "%s a b", names[i]);
        run(2, words);
        says(err, "operand");
    }
}

static void empty(void **state)
{
    (void)state;
    run(0, "ls");
    says(out, "0 entries");
    run(0, "stat");
    says(out, folder);
    run(0, "verify");
    run(0, "prune");
    run(0, "clear");
    run(1, "explain");
    says(err, "there are no entries");
    assert_int_equal(access(entries, F_OK), -1);
    setenv("TROUPE_CACHE_DIR", "", 1);
    run(0, "stat");
    says(out, "none");
    run(0, "stat --json");
    cJSON *all = result();
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(all, "folder")));
    cJSON_Delete(all);
    run(1, "prune");
    says(err, "there is no cache folder");
}

static void listed(void **state)
{
    (void)state;
    fill();
    run(0, "ls");
    says(out, "3 entries");
    says(out, "a \"b\"?.cu");
    says(out, "sm_90a");
    run(0, "ls --json");
    cJSON *all = result();
    assert_true(cJSON_IsArray(all));
    int count = 0, other = 0;
    for (const cJSON *one = all->child; one; one = one->next) {
        assert_int_equal(strlen(json_string(one, "hash")), 64);
        assert_true(json_number(one, "payload_bytes") == 8);
        assert_string_equal(json_string(one, "compiler"), "nvrtc 12.8.93");
        other += !strcmp(json_string(one, "name"), "other.cu");
        count++;
    }
    assert_int_equal(count, 3);
    assert_int_equal(other, 1);
    cJSON_Delete(all);
    setenv("TROUPE_CACHE_SIZE", "1M", 1);
    run(0, "stat --json");
    unsetenv("TROUPE_CACHE_SIZE");
    all = result();
    assert_true(json_number(all, "entries") == 3 && json_number(all, "header_lists") == 3);
    assert_true(json_number(all, "max_bytes") == 1 << 20 && json_number(all, "bytes") > 500);
    assert_string_equal(json_string(all, "folder"), folder);
    cJSON_Delete(all);
    run(0, "stat");
    says(out, "entries  3, with 3 lists of headers");
}

static void damaged(void **state)
{
    (void)state;
    char path[PATH_MAX], name[TRP__DISK_NAME];
    trp__hash hash = fill();
    trp__disk_name(name, &hash, TRP__ENTRY_PAYLOAD);
    snprintf(path, sizeof path, "%s/%s", entries, name);
    run(0, "verify");
    says(out, "6 good, 0 damaged");
    h_file_flip(path, h_file_size(path) - 1);
    run(1, "verify");
    says(out, name);
    says(out, "its payload is damaged");
    run(1, "verify --json");
    cJSON *all = result();
    assert_true(json_number(all, "bad_count") == 1 && json_number(all, "good_count") == 5);
    assert_string_equal(json_string(cJSON_GetObjectItem(all, "bad")->child, "what"),
                        "its payload is damaged");
    cJSON_Delete(all);
    run(0, "verify --remove");
    assert_int_equal(access(path, F_OK), -1);
    run(0, "verify");
    says(out, "5 good, 0 damaged");
}

static void packs(void **state)
{
    (void)state;
    trp__cache_pack_writer *w;
    trp__key key = key_of("packed.cu", "-O3");
    trp__store_request request = {.key = &key};
    trp__store_entry entry = {.payload = "the code", .bytes = 8};
    assert_int_equal(trp__cache_pack_begin(pack, &w, NULL), TRP_OK);
    assert_int_equal(trp__cache_pack_add(w, &request, &entry, NULL), TRP_OK);
    assert_int_equal(trp__cache_pack_finish(w, NULL), TRP_OK);
    trp__key_end(&key);
    setenv("TROUPE_CACHE_PACKS", pack, 1);
    run(0, "ls");
    says(out, "in a pack");
    says(out, "packed.cu");
    run(0, "ls --json");
    cJSON *all = result();
    assert_string_equal(json_string(all->child, "pack"), pack);
    cJSON_Delete(all);
    run(0, "stat --json");
    all = result();
    assert_true(json_number(cJSON_GetObjectItem(all, "packs")->child, "entries") == 1);
    cJSON_Delete(all);
    h_file_flip(pack, 64 + 64 + 10);
    run(1, "verify --remove"); /* which leaves packs alone */
    says(out, pack);
    h_file_write(pack, "no pack at all");
    run(0, "stat");
    says(err, "a pack is left out");
}

static void pruned(void **state)
{
    (void)state;
    fill();
    run(2, "prune --size lots");
    says(err, "--size: expected BYTES");
    run(0, "prune");
    says(out, "removed 0 files");
    run(0, "prune --size 1K --json");
    cJSON *all = result();
    assert_true(json_number(all, "removed") >= 3 && json_number(all, "left_bytes") <= 1024);
    cJSON_Delete(all);
    run(0, "clear");
    run(0, "ls");
    says(out, "0 entries");
}

static void explained(void **state)
{
    (void)state;
    char words[64], hash_text[TRP__HASH_TEXT];
    trp__hash hash = fill();
    trp__hash_text(&hash, hash_text);
    snprintf(words, sizeof words, "explain %.10s", hash_text);
    run(0, words);
    says(out, "option: -O2, not -O3");
    run(0, "explain");
    run(1, "explain 0123456789abcdef0");
    says(err, "there is no entry 0123456789abcdef0");
    run(2, "explain XYZ");
    says(err, "expected hexadecimal digits");
}

static void hostile(void **state)
{
    (void)state;
    fill();
    chmod(entries, 0777);
    run(1, "stat");
    says(err, "only its owner can write");
    run(1, "ls");
    run(1, "verify");
    run(1, "prune");
    chmod(entries, 0700);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

UNIT_MAIN(CASE(usage), CASE(empty), CASE(listed), CASE(damaged), CASE(packs), CASE(pruned),
          CASE(explained), CASE(hostile))
