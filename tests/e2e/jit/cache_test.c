/* The kernel cache under the jit actor: what was compiled once is not compiled again, by whatever
 * worker; what is different is; and what is wrong with the folder costs no compile. An entry that
 * is written again has another file, so the file tells whether a compile was done. Needs the real
 * NVRTC. */
#include "support/harness.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <dirent.h>
#include <unistd.h>

TROUPE_TEST("long");

static char folder[64];

static const char source[] = "#include \"value.h\"\n"
                             "template <class T> __global__ void set(T *x) { x[0] = VALUE; }\n"
                             "#warning \"kept with its log\"\n";

typedef struct bench {
    h_world world;
    trp_actor *jit;
} bench;

static bench open_bench(void)
{
    bench b = {.world = h_open(NULL)};
    b.jit = h_actor(b.world.device, "jit");
    return b;
}

static void close_bench(bench *b)
{
    trp_actor_destroy(b->jit);
    h_close(&b->world);
}

/* What lies in the folder: how many entries, and the file of the last. */
typedef struct look {
    int entries;
    ino_t file;
    char path[512];
} look;

static void look_into(const char *path, look *out)
{
    DIR *all = opendir(path);
    for (const struct dirent *e; all && (e = readdir(all)) != NULL;) {
        char full[512];
        struct stat s;
        if (e->d_name[0] == '.')
            continue;
        snprintf(full, sizeof full, "%s/%s", path, e->d_name);
        H_CHECK(lstat(full, &s) == 0);
        size_t length = strlen(e->d_name);
        if (S_ISDIR(s.st_mode)) {
            look_into(full, out);
        } else if (length > 2 && s.st_size > 1000) { /* not the account, not the locks */
            out->entries++;
            out->file = s.st_ino;
            snprintf(out->path, sizeof out->path, "%.500s", full);
        }
    }
    if (all)
        closedir(all);
}

static look now(void)
{
    look l = {0};
    look_into(folder, &l);
    return l;
}

typedef struct wish {
    const char *value; /* of the header */
    const char *options[2];
    uint32_t option_count;
} wish;

static char *module_text(const bench *b, trp_module m, trp_module_part part)
{
    uint64_t bytes = 0;
    H_OK(trp_module_read(b->world.device, m, part, NULL, 0, &bytes));
    char *text = h_malloc(bytes + 1);
    H_OK(trp_module_read(b->world.device, m, part, text, bytes + 1, &bytes));
    text[bytes] = '\0';
    return text;
}

/* False: there is no NVRTC. */
static bool compile(const bench *b, wish w)
{
    const trp_jit_header header = {"value.h", w.value};
    const char *name = "set<float>";
    trp_jit_compile_request r = {.source = source,
                                 .architecture = "sm_90",
                                 .headers = &header,
                                 .header_count = 1,
                                 .names = &name,
                                 .name_count = 1,
                                 .options = w.options,
                                 .option_count = w.option_count};
    trp_module m;
    trp_completion c = {0};
    H_OK(trp_jit_compile(b->jit, &r, &m, &c));
    trp_status status = h_await(c.future, NULL);
    if (status == TRP_E_MISSING)
        return false;
    H_OK(status);
    char *log = module_text(b, m, TRP_MODULE_LOG), *names = module_text(b, m, TRP_MODULE_NAMES);
    char *image = module_text(b, m, TRP_MODULE_IMAGE);
    h_check_says(__FILE__, __LINE__, log, "kept with its log");
    h_check_says(__FILE__, __LINE__, names, "set");
    H_CHECK(memcmp(image,
                   "\x7f"
                   "ELF",
                   4) == 0);
    free(log);
    free(names);
    free(image);
    H_OK(trp_module_free(b->world.device, m));
    return true;
}

static void empty_folder(void)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s' && mkdir -m 700 '%s'", folder, folder);
    H_EQUAL(system(command), 0);
}

static const wish plain = {.value = "#define VALUE 1\n"};

static bench begin(void)
{
    empty_folder();
    bench b = open_bench();
    if (!compile(&b, plain))
        h_skip("NVRTC is not installed");
    H_EQUAL(now().entries, 1);
    return b;
}

static void once(void)
{
    bench b = begin();
    look first = now();
    H_CHECK(compile(&b, plain));
    H_EQUAL(now().file, first.file);
    close_bench(&b);
    b = open_bench(); /* another worker */
    H_CHECK(compile(&b, plain));
    H_EQUAL(now().file, first.file);
    H_EQUAL(now().entries, 1);
    close_bench(&b);
}

static void what_makes_another(void)
{
    bench b = begin();
    const wish other[] = {
        {.value = "#define VALUE 2\n"}, /* one byte of a header */
        {.value = "#define VALUE 1\n", .options = {"-DA", "-DB"}, .option_count = 2},
        {.value = "#define VALUE 1\n", .options = {"-DB", "-DA"}, .option_count = 2},
    };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        H_CHECK(compile(&b, other[i]));
        H_EQUAL(now().entries, i + 2);
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        H_CHECK(compile(&b, other[i]));
    H_EQUAL(now().entries, 4);
    close_bench(&b);
}

static void put_text(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    H_CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* What an option has included before the source comes from the folder that the worker was started
 * in, which is in no key. */
static void included_before(void)
{
    static const char *const options[] = {"-include=before.h"};
    char back[4096];
    bench b = begin();
    close_bench(&b);
    put_text("before.h", "#define BEFORE 1\n");
    H_CHECK(getcwd(back, sizeof back) && chdir(folder) == 0);
    b = open_bench();
    const trp_jit_compile_request r = {.source = "__global__ void k(int *x) { x[0] = BEFORE; }",
                                       .architecture = "sm_90",
                                       .options = options,
                                       .option_count = 1};
    for (int i = 0; i < 2; i++) {
        trp_module m;
        trp_completion c = {0};
        trp_error error = {0};
        H_OK(trp_jit_compile(b.jit, &r, &m, &c));
        H_EQUAL(h_await(c.future, &error), i == 0 ? TRP_OK : TRP_E_LIBRARY);
        put_text("before.h", "#error it has changed\n");
    }
    close_bench(&b);
    H_CHECK(chdir(back) == 0);
}

/* An entry that is damaged somewhere is made again, and replaced. */
static void damaged(void)
{
    bench b = begin();
    for (int i = 0; i < (H_SANITIZED ? 1 : 3); i++) {
        look before = now();
        struct stat s;
        unsigned char byte;
        int fd = open(before.path, O_RDWR | O_CLOEXEC);
        H_CHECK(fd >= 0 && fstat(fd, &s) == 0);
        off_t at = (off_t)ref_rng_below(h_rng(), (size_t)s.st_size);
        H_CHECK(pread(fd, &byte, 1, at) == 1);
        byte ^= (unsigned char)(1 + ref_rng_below(h_rng(), 255));
        H_CHECK(pwrite(fd, &byte, 1, at) == 1);
        close(fd);
        H_CHECK(compile(&b, plain));
        H_EQUAL(now().entries, 1);
        look mended = now();
        H_CHECK(mended.file != before.file);
        H_CHECK(compile(&b, plain));
        H_EQUAL(now().file, mended.file);
    }
    close_bench(&b);
}

/* Many at a time want few. */
static void wanted_by_many(void)
{
    enum { MANY = H_SANITIZED ? 8 : 24, FEW = 3 };
    static const char *const values[FEW] = {"#define VALUE 7\n", "#define VALUE 8\n",
                                            "#define VALUE 9\n"};
    bench b = begin();
    trp_module m[MANY];
    trp_completion c[MANY] = {{0}};
    for (int i = 0; i < MANY; i++) {
        const trp_jit_header header = {"value.h", values[i % FEW]};
        trp_jit_compile_request r = {
            .source = source, .architecture = "sm_90", .headers = &header, .header_count = 1};
        H_OK(trp_jit_compile(b.jit, &r, &m[i], &c[i]));
    }
    for (int i = 0; i < MANY; i++)
        H_OK(h_await(c[i].future, NULL));
    H_EQUAL(now().entries, 1 + FEW);
    close_bench(&b);
}

static void no_folder(void)
{
    bench b = begin();
    close_bench(&b);
    static const char *const bad[] = {"", "/dev/null", "/nowhere/at/all"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("TROUPE_CACHE_DIR", bad[i], 1);
        b = open_bench();
        H_CHECK(compile(&b, plain));
        close_bench(&b);
    }
    setenv("TROUPE_CACHE_DIR", folder, 1);
    H_CHECK(chmod(folder, 0777) == 0); /* what anybody can write into is not used */
    b = open_bench();
    look before = now();
    H_CHECK(compile(&b, (wish){.value = "#define VALUE 3\n"}));
    H_EQUAL(now().entries, before.entries);
    close_bench(&b);
}

/* Whether the worker has mapped NVRTC, and from where. */
static bool has_nvrtc(const bench *b, char *file, size_t size)
{
    char path[64], line[1024];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)h_info(b->world.device).worker_pid);
    FILE *maps = fopen(path, "r");
    H_CHECK(maps != NULL);
    while (!found && fgets(line, sizeof line, maps)) {
        const char *name = strchr(line, '/');
        found = name && strstr(name, "/libnvrtc.so");
        if (found)
            snprintf(file, size, "%.*s", (int)strcspn(name, "\n"), name);
    }
    fclose(maps);
    return found;
}

/* What is found needs no compiler; nor does it need one that can be loaded. */
static void without_the_compiler(void)
{
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("the library would be in this process, from cases before");
    char file[512];
    bench b = begin();
    look first = now();
    H_CHECK(has_nvrtc(&b, file, sizeof file));
    close_bench(&b);
    b = open_bench();
    H_CHECK(!has_nvrtc(&b, file, sizeof file));
    H_CHECK(compile(&b, plain));
    H_CHECK(!has_nvrtc(&b, file, sizeof file));
    H_EQUAL(now().file, first.file);
    H_CHECK(compile(&b, (wish){.value = "#define VALUE 2\n"}));
    H_CHECK(has_nvrtc(&b, file, sizeof file)); /* the entry was not another build's */
    H_EQUAL(now().entries, 2);
    H_CHECK(compile(&b, plain));
    H_EQUAL(now().entries, 2);
    close_bench(&b);
}

/* One that is the first to be found and can't be loaded is not the one that compiles; what its
 * result is called must come from the one that does. */
static void taken_for_another(void)
{
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("the library would be in this process, from cases before");
    char file[512], place[80], command[1024];
    bench b = begin();
    look first = now();
    H_CHECK(has_nvrtc(&b, file, sizeof file));
    close_bench(&b);
    snprintf(place, sizeof place, "%s-nvrtc", folder);
    snprintf(command, sizeof command, "mkdir '%s' && head -c 65536 '%s' >'%s/libnvrtc.so.13'",
             place, file, place);
    H_EQUAL(system(command), 0);
    snprintf(command, sizeof command, /* of a machine that there is not: e_machine */
             "cd '%s' && printf '\\377' | dd of=libnvrtc.so.13 bs=1 seek=18 conv=notrunc "
             "2>/dev/null && cp libnvrtc.so.13 libnvrtc.so.12",
             place);
    H_EQUAL(system(command), 0);
    setenv("TROUPE_LIBRARY_PATH", place, 1);
    b = open_bench();
    H_CHECK(compile(&b, plain));
    H_CHECK(has_nvrtc(&b, file, sizeof file));
    H_EQUAL(now().entries, 1);
    H_EQUAL(now().file, first.file);
    H_CHECK(compile(&b, (wish){.value = "#define VALUE 2\n"}));
    H_EQUAL(now().entries, 2);
    close_bench(&b);
    unsetenv("TROUPE_LIBRARY_PATH");
    setenv("TROUPE_NVRTC", "/nowhere/libnvrtc.so.13", 1);
    b = open_bench();
    H_CHECK(!compile(&b, plain));
    close_bench(&b);
    unsetenv("TROUPE_NVRTC");
    snprintf(command, sizeof command, "rm -rf '%s'", place);
    H_EQUAL(system(command), 0);
}

/* Headers in files. */

static char *place_of(const char *name)
{
    static char path[96];
    snprintf(path, sizeof path, "%s-%s", folder, name);
    return path;
}

static void put_header(const char *place, const char *text)
{
    char path[128];
    (void)mkdir(place_of(place), 0700);
    snprintf(path, sizeof path, "%s/value.h", place_of(place));
    FILE *file = fopen(path, "w");
    H_CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* Compiles with a header that lies there; returns the image. */
static char *compile_with(const bench *b, const char *place, const char *option, uint64_t *bytes)
{
    static const char text[] =
        "#include <value.h>\n"
        "extern \"C\" __global__ void set(const char **x) { x[0] = VALUE; }\n";
    const char *include = place_of(place);
    trp_jit_compile_request r = {.source = text,
                                 .architecture = "sm_90",
                                 .include_paths = &include,
                                 .include_count = 1,
                                 .options = &option,
                                 .option_count = option != NULL};
    trp_module m;
    trp_completion c = {0};
    H_OK(trp_jit_compile(b->jit, &r, &m, &c));
    H_OK(h_await(c.future, NULL));
    H_OK(trp_module_read(b->world.device, m, TRP_MODULE_IMAGE, NULL, 0, bytes));
    char *image = h_malloc(*bytes);
    H_OK(trp_module_read(b->world.device, m, TRP_MODULE_IMAGE, image, *bytes, bytes));
    H_OK(trp_module_free(b->world.device, m));
    return image;
}

/* How many entries two compiles with the same header in two places make, and how many differ. */
static int entries_for(bench *b, const char *text, const char *option, bool *same)
{
    uint64_t bytes[2];
    int before = now().entries;
    put_header("here", text);
    put_header("elsewhere", text);
    char *first = compile_with(b, "here", option, &bytes[0]);
    char *second = compile_with(b, "elsewhere", option, &bytes[1]);
    *same = bytes[0] == bytes[1] && memcmp(first, second, bytes[0]) == 0;
    free(first);
    free(second);
    return now().entries - before;
}

/* A header is known by its content and how it is found, not by where its folder lies; unless the
 * result may have the path in it. */
static void wherever_headers_lie(void)
{
    char command[256];
    bench b = begin();
    bool same;
    H_EQUAL(entries_for(&b, "#define VALUE \"here\"\n", NULL, &same), 1);
    H_CHECK(same);
    H_EQUAL(entries_for(&b, "#define VALUE \"there\"\n", NULL, &same), 1);
    H_EQUAL(entries_for(&b, "#define VALUE __FILE__\n", NULL, &same), 2);
    H_EQUAL(
        entries_for(&b, "__device__ const char v[] = __FILE__;\n#define VALUE v\n", NULL, &same),
        2);
    H_CHECK(!same);
    H_EQUAL(entries_for(&b, "#define VALUE \"here\"\n", "-lineinfo", &same), 2);
    H_EQUAL(entries_for(&b, "#define VALUE \"here\"\n", "--device-debug", &same), 2);
    close_bench(&b);
    snprintf(command, sizeof command, "rm -rf '%s'*where '%s-here'", folder, folder);
    H_EQUAL(system(command), 0);
}

/* A header finds those that lie beside it; a source of no folder finds none in the worker's. */
static void beside(void)
{
    static const char *const found = "#include \"inner/value.h\"\n"
                                     "extern \"C\" __global__ void set(int *x) { x[0] = VALUE; }\n";
    static const char *const not_found = "#include \"value.h\"\n";
    char command[512], before[512];
    bench b = begin();
    close_bench(&b);
    put_header("here", "#define VALUE HIDDEN\n");
    snprintf(command, sizeof command,
             "mkdir '%s/inner' && cd '%s/inner' && mv ../value.h hidden.h && "
             "echo '#include \"hidden.h\"' >value.h && echo '#define HIDDEN 3' >>value.h",
             place_of("here"), place_of("here"));
    H_EQUAL(system(command), 0);
    snprintf(before, sizeof before, "%s/inner", place_of("here"));
    char *own = getcwd(command, sizeof command);
    H_CHECK(own && chdir(before) == 0);
    b = open_bench();
    H_CHECK(chdir(own) == 0);
    const char *include = place_of("here");
    trp_jit_compile_request r = {
        .source = found, .architecture = "sm_90", .include_paths = &include, .include_count = 1};
    trp_module m;
    trp_completion c = {0};
    H_OK(trp_jit_compile(b.jit, &r, &m, &c));
    H_OK(h_await(c.future, NULL));
    trp_completion other = {0};
    r.source = not_found;
    H_OK(trp_jit_compile(b.jit, &r, &m, &other));
    H_EQUAL(h_await(other.future, NULL), TRP_E_LIBRARY);
    h_check_says(__FILE__, __LINE__, trp_error_message(), "kernel.cu(1): ");
    close_bench(&b);
    snprintf(command, sizeof command, "rm -rf '%s'", place_of("here"));
    H_EQUAL(system(command), 0);
}

/* Memory: the same request again in a process needs no cache. Whether it was compiled shows in what
 * is written to the folder, which is emptied before. */

static bool compiled_again(bench *b, const char *place, const char *option)
{
    uint64_t bytes;
    empty_folder();
    free(compile_with(b, place, option, &bytes));
    int entries = now().entries;
    H_CHECK(entries <= 1);
    return entries == 1;
}

static void same_request(void)
{
    unsetenv("TROUPE_JIT_MEMORY");
    bench b = begin();
    empty_folder();
    H_CHECK(compile(&b, plain));
    H_EQUAL(now().entries, 0);
    /* A module that shares with one that is gone, in its own turn, is as good. */
    H_CHECK(compile(&b, plain));
    H_EQUAL(now().entries, 0);
    const wish other[] = {{.value = "#define VALUE 2\n"},
                          {.value = "#define VALUE 1\n", .options = {"-DA"}, .option_count = 1}};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        H_CHECK(compile(&b, other[i]));
        H_EQUAL(now().entries, i + 1);
    }
    empty_folder();
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        H_CHECK(compile(&b, other[i]));
    H_CHECK(compile(&b, plain));
    H_EQUAL(now().entries, 0);
    close_bench(&b);
    b = open_bench(); /* it was that device's */
    H_CHECK(compile(&b, plain));
    H_EQUAL(now().entries, 1);
    close_bench(&b);
    setenv("TROUPE_JIT_MEMORY", "0", 1);
}

/* A header that changes, goes, or comes in front is seen; one that has just changed is read. */
static void same_request_other_headers(void)
{
    char command[256];
    unsetenv("TROUPE_JIT_MEMORY");
    bench b = begin();
    put_header("kept", "#define VALUE \"one\"\n");
    while (compiled_again(&b, "kept", NULL)) /* until its times tell of changes */
        usleep(100000);
    H_CHECK(!compiled_again(&b, "kept", NULL));
    put_header("kept", "#define VALUE \"two\"\n");
    H_CHECK(compiled_again(&b, "kept", NULL));
    H_CHECK(compiled_again(&b, "kept", NULL)); /* still too young */
    while (compiled_again(&b, "kept", NULL))
        usleep(100000);
    H_CHECK(!compiled_again(&b, "kept", NULL));
    snprintf(command, sizeof command, "cd '%s' && cp value.h other.h && mv other.h value.h",
             place_of("kept"));
    H_EQUAL(system(command), 0);
    H_CHECK(compiled_again(&b, "kept", NULL));
    close_bench(&b);
    snprintf(command, sizeof command, "rm -rf '%s'", place_of("kept"));
    H_EQUAL(system(command), 0);
    setenv("TROUPE_JIT_MEMORY", "0", 1);
}

/* More than there is room for: those not used for longest go, and all goes on. */
static void bounded_memory(void)
{
    enum { SOME = 4 };
    static const char *const values[SOME] = {"#define VALUE 1\n", "#define VALUE 2\n",
                                             "#define VALUE 3\n", "#define VALUE 4\n"};
    setenv("TROUPE_JIT_MEMORY", "16000", 1);
    bench b = begin();
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < SOME; i++)
            H_CHECK(compile(&b, (wish){.value = values[i]}));
    }
    empty_folder();
    H_CHECK(compile(&b, (wish){.value = values[SOME - 1]}));
    H_EQUAL(now().entries, 0);
    H_CHECK(compile(&b, (wish){.value = values[0]}));
    H_EQUAL(now().entries, 1);
    close_bench(&b);
    setenv("TROUPE_JIT_MEMORY", "0", 1);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {H_CASE(once),
                                   H_CASE(what_makes_another),
                                   H_CASE(included_before),
                                   H_CASE(damaged),
                                   H_CASE(wanted_by_many),
                                   H_CASE(no_folder),
                                   H_CASE(without_the_compiler),
                                   H_CASE(taken_for_another),
                                   H_CASE(wherever_headers_lie),
                                   H_CASE(beside),
                                   H_CASE(same_request),
                                   H_CASE(same_request_other_headers),
                                   H_CASE(bounded_memory)};
    snprintf(folder, sizeof folder, "/tmp/troupe-jit-cache-%d", (int)getpid());
    setenv("TROUPE_CACHE_DIR", folder, 1);
    setenv("TROUPE_JIT_MEMORY", "0", 1); /* most cases are about what is on the disk */
    int result = h_main(argc, argv, cases, sizeof cases / sizeof *cases);
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 ? result : 1;
}
