/* Saving: what is refused writes nothing, and a file is replaced whole or not at all. In a
 * folder of its own. SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/io_bed.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const double four[4] = {1, 2, 3, 4};

static trp_io_item two_by_two(void)
{
    return io_item(NULL, TRP_F64, 2, (int64_t[]){2, 2}, four);
}

static void refuse_save(const char *path, const trp_io_item *item, trp_status status,
                        const char *why)
{
    const int before = io_count();
    H_IS(trp_io_save(path, item, 1, &(trp_io_save_options){.format = TRP_IO_NPY}), status);
    H_SAYS(why);
    H_EQUAL(io_count(), before);
}

static void refused_saves(void)
{
    io_begin();
    const char *path = io_path("c.npy");
    trp_io_item item = two_by_two();
    item.array.type = TRP_BF16;
    refuse_save(path, &item, TRP_E_UNSUPPORTED, "items[0]: .npy has no bf16; safetensors have");
    item.array.type = (trp_dtype)99;
    refuse_save(path, &item, TRP_E_ARGUMENT, "type 99");
    item = two_by_two();
    item.array.dim[0] = INT64_C(1) << 61;
    refuse_save(path, &item, TRP_E_ARGUMENT, "no number of bytes below 2^63");
    item.array.dim[0] = -2;
    refuse_save(path, &item, TRP_E_ARGUMENT, "dim[0] is -2");
    item = two_by_two();
    item.array.rank = TRP_IO_RANK_MAX + 1;
    refuse_save(path, &item, TRP_E_ARGUMENT, "rank is 33");
    item = two_by_two();
    item.array.name = "a";
    refuse_save(path, &item, TRP_E_ARGUMENT, "has no name");
    item = two_by_two();
    item.array.reserved[2] = 1;
    refuse_save(path, &item, TRP_E_ARGUMENT, "reserved");
    item = two_by_two();
    item.data = NULL;
    refuse_save(path, &item, TRP_E_ARGUMENT, "expected data, or a buffer and options->device");
    H_EQUAL(io_count(), 0);

    item = two_by_two();
    refuse_save("", &item, TRP_E_ARGUMENT, "expected the name of a file");
    refuse_save(io_folder, &item, TRP_E_ARGUMENT, "it exists and is not a regular file");
    refuse_save("/dev/null", &item, TRP_E_ARGUMENT, "it exists and is not a regular file");
    refuse_save(io_path("new/"), &item, TRP_E_ARGUMENT, "expected the name of a file");
    refuse_save(io_path("none/c.npy"), &item, TRP_E_MISSING,
                "making a temporary file in its folder: No such file or directory");
    H_EQUAL(symlink("/dev/null", io_path("link")), 0);
    refuse_save(io_path("link"), &item, TRP_E_ARGUMENT, "it exists and is not a regular file");
    unlink(io_path("link"));
    H_EQUAL(symlink("nothing", io_path("link")), 0);
    refuse_save(io_path("link"), &item, TRP_E_MISSING, "No such file or directory");
    unlink(io_path("link"));

    trp_io_item twins[] = {two_by_two(), two_by_two()};
    trp_io_pair pair = {"a", "b"};
    twins[0].array.name = twins[1].array.name = "same";
    H_IS(trp_io_save(io_path("c.npy"), twins, 2, NULL), TRP_E_ARGUMENT);
    H_SAYS("count is 2: .npy holds 1 array");
    H_IS(trp_io_save(io_path("c.npz"), twins, 2, NULL), TRP_E_ARGUMENT);
    H_SAYS("two items have the name 'same'");
    H_IS(trp_io_save(io_path("c.txt"), twins, 1, NULL), TRP_E_ARGUMENT);
    H_SAYS("options->format");
    H_IS(trp_io_save(io_path("c.npz"), twins, 1,
                     &(trp_io_save_options){.metadata = &pair, .metadata_count = 1}),
         TRP_E_UNSUPPORTED);
    twins[0].array.name = "__metadata__";
    H_IS(trp_io_save(io_path("c.safetensors"), twins, 1, NULL), TRP_E_ARGUMENT);
    twins[0].array.name = "\xff";
    H_IS(trp_io_save(io_path("c.safetensors"), twins, 1, NULL), TRP_E_ARGUMENT);
    H_SAYS("UTF-8");
    twins[0].array.name = "f";
    twins[0].array.fortran_order = true;
    H_IS(trp_io_save(io_path("c.safetensors"), twins, 1, NULL), TRP_E_UNSUPPORTED);
    H_SAYS("Fortran order");
    H_IS(trp_io_save(NULL, twins, 1, NULL), TRP_E_ARGUMENT);
    H_IS(trp_io_save("a.npz", NULL, 1, NULL), TRP_E_ARGUMENT);
    H_EQUAL(io_count(), 0);
    io_end();
}

/* A write that fails half-way leaves the old file as it was, and no temporary. The signal that
 * comes with the error does not end the program. */
static void a_failed_write_changes_nothing(void)
{
    char old[8] = "";
    io_begin();
    const char *path = io_path("d.npy");
    io_put(path, "old", 3);
    fflush(NULL);
    pid_t child = fork();
    H_CHECK(child >= 0);
    if (child == 0) {
        trp_io_item item = two_by_two();
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){140, 140});
        _exit(trp_io_save(path, &item, 1, NULL) != TRP_E_SYSTEM                     ? 1
              : strstr(trp_error_message(), "File too large (RLIMIT_FSIZE is 140)") ? 0
                                                                                    : 2);
    }
    int status = 0;
    H_CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    H_EQUAL(WEXITSTATUS(status), 0);
    H_EQUAL(io_count(), 1);
    FILE *f = fopen(path, "rb");
    H_CHECK(f && fread(old, 1, sizeof old, f) == 3 && memcmp(old, "old", 3) == 0);
    fclose(f);
    io_end();
}

static void a_file_is_replaced_whole(void)
{
    char byte[4];
    struct stat st;
    io_begin();
    const char *path = io_path("e.npy"), *link_path = io_path("link.npy");
    io_put(path, "old", 3);
    H_EQUAL(chmod(path, 0640), 0);
    H_EQUAL(symlink("e.npy", link_path), 0);
    /* A reader that has the old file open keeps it. */
    int old = open(path, O_RDONLY | O_CLOEXEC);
    trp_io_item item = two_by_two();
    H_OK(trp_io_save(link_path, &item, 1, NULL));
    H_EQUAL(read(old, byte, sizeof byte), 3);
    close(old);
    H_CHECK(lstat(link_path, &st) == 0 && S_ISLNK(st.st_mode));
    H_EQUAL(lstat(path, &st), 0);
    H_EQUAL(st.st_mode & 07777, 0640);
    H_EQUAL(st.st_size, 128 + 32);
    H_EQUAL(io_count(), 2);
    io_end();
}

/* Temporaries of a process that was killed are passed over, and a new file obeys the umask. */
static void leftovers_do_not_disturb(void)
{
    char left[64];
    struct stat st;
    io_begin();
    snprintf(left, sizeof left, ".troupe-%ld-0.tmp", (long)getpid());
    io_put(io_path(left), "", 0);
    mode_t old = umask(027);
    trp_io_item item = two_by_two();
    H_OK(trp_io_save(io_path("f.npy"), &item, 1, NULL));
    umask(old);
    H_EQUAL(stat(io_path("f.npy"), &st), 0);
    H_EQUAL(st.st_mode & 07777, 0640);
    H_EQUAL(io_count(), 2);
    io_end();
}

static void a_bare_name_goes_to_the_working_folder(void)
{
    io_begin();
    int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    H_CHECK(here >= 0 && chdir(io_folder) == 0);
    trp_io_item item = two_by_two();
    trp_status status = trp_io_save("g.npy", &item, 1, NULL);
    H_EQUAL(fchdir(here), 0);
    close(here);
    H_EQUAL(status, TRP_OK);
    H_EQUAL(io_count(), 1);
    io_end();
}

/* Readers of safetensors, trp_io_open() among them, refuse a header of more than 100 MB. */
static void a_header_beyond_the_limit_is_not_written(void)
{
    const size_t limit = 100 * 1000 * 1000;
    char *value = malloc(limit + 1);
    trp_io_item item = two_by_two();
    trp_io_pair pair = {"key", value};
    trp_io_save_options with = {.metadata = &pair, .metadata_count = 1};
    io_begin();
    H_CHECK(value != NULL);
    memset(value, 'x', limit);
    value[limit] = '\0';
    item.array.name = "a";
    H_EQUAL(trp_io_save(io_path("h.safetensors"), &item, 1, &with), TRP_E_UNSUPPORTED);
    H_SAYS("readers of safetensors accept 100000000");
    H_EQUAL(io_count(), 0);
    free(value);
    io_end();
}

H_CASES(H_CASE(a_failed_write_changes_nothing), /* first: it forks */
        H_CASE(refused_saves), H_CASE(a_header_beyond_the_limit_is_not_written),
        H_CASE(a_file_is_replaced_whole), H_CASE(leftovers_do_not_disturb),
        H_CASE(a_bare_name_goes_to_the_working_folder))
