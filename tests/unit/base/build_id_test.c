/* base/build_id and base/ldpath: what is read of files that may be anything. */
#include "support/unit.h"

#include "base/build_id.h"
#include "base/os/ldpath.h"
#include "support/folder.h"
#include "support/label.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

TROUPE_TEST("no tsan");

/* A file in memory, by a path. */
typedef struct image {
    int fd;
    char path[64];
} image;

static image make_image(const void *bytes, size_t size)
{
    image file = {.fd = memfd_create("image", MFD_CLOEXEC)};
    assert_true(file.fd >= 0);
    snprintf(file.path, sizeof file.path, "/proc/self/fd/%d", file.fd);
    assert_int_equal(pwrite(file.fd, bytes, size, 0), (ssize_t)size);
    return file;
}

/* A library without any code: a head, a part to load, a part with two notes. */
typedef struct tiny {
    ElfW(Ehdr) head;
    ElfW(Phdr) part[2];
    struct {
        ElfW(Nhdr) head;
        char name[8]; /* "Else" with its end takes 5 */
        unsigned char content[4];
    } other;
    struct {
        ElfW(Nhdr) head;
        char name[4];
        unsigned char id[20];
    } build;
} tiny;

static tiny make_tiny(void)
{
    tiny t = {.head = {.e_ident = {0x7f, 'E', 'L', 'F',
                                   sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32, ELFDATA2LSB},
                       .e_phoff = offsetof(tiny, part),
                       .e_phentsize = sizeof(ElfW(Phdr)),
                       .e_phnum = 2},
              .part = {{.p_type = PT_LOAD, .p_filesz = sizeof(tiny)},
                       {.p_type = PT_NOTE,
                        .p_offset = offsetof(tiny, other),
                        .p_filesz = sizeof t.other + sizeof t.build,
                        .p_align = 4}},
              .other = {.head = {5, 3, 3}, .name = "Else"},
              .build = {.head = {4, 20, NT_GNU_BUILD_ID}, .name = "GNU"}};
    for (unsigned char i = 0; i < sizeof t.build.id; i++)
        t.build.id[i] = (unsigned char)(i * 13);
    return t;
}

static const char tiny_id[] = "000d1a2734414e5b6875828f9ca9b6c3d0ddeaf7";

static bool read_tiny(const tiny *t, size_t size, char id[TRP__BUILD_ID_TEXT])
{
    image file = make_image(t, size);
    bool found = trp__build_id_of_file(file.path, id);
    close(file.fd);
    return found;
}

static void of_a_file(void **unused)
{
    (void)unused;
    char id[TRP__BUILD_ID_TEXT];
    tiny t = make_tiny();
    assert_true(read_tiny(&t, sizeof t, id));
    assert_string_equal(id, tiny_id);
    for (size_t size = 0; size < offsetof(tiny, build) + sizeof t.build; size++) {
        assert_false(read_tiny(&t, size, id));
        assert_string_equal(id, "");
    }
}

static void without_a_note(void **unused)
{
    (void)unused;
    char id[TRP__BUILD_ID_TEXT], folder[PATH_MAX - 64], path[PATH_MAX];
    tiny t = make_tiny();
    t.part[1].p_type = PT_LOAD;
    assert_false(read_tiny(&t, sizeof t, id));
    t = make_tiny();
    t.build.head.n_type = 1;
    assert_false(read_tiny(&t, sizeof t, id));
    t = make_tiny();
    t.build.head.n_descsz = 0;
    assert_false(read_tiny(&t, sizeof t, id));
    t = make_tiny();
    t.head.e_phnum = 0;
    assert_false(read_tiny(&t, sizeof t, id));
    t = make_tiny();
    t.head.e_ident[EI_CLASS] ^= ELFCLASS32 ^ ELFCLASS64; /* of another kind of machine */
    assert_false(read_tiny(&t, sizeof t, id));
    h_folder_make(folder, sizeof folder, "build-id");
    assert_false(trp__build_id_of_file(folder, id));
    snprintf(path, sizeof path, "%s/none", folder);
    assert_false(trp__build_id_of_file(path, id));
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(trp__build_id_of_file(path, id));
    h_folder_remove(folder);
}

/* Sizes and offsets that lead anywhere. */
static void damaged(void **unused)
{
    (void)unused;
    static const unsigned char values[] = {0, 1, 2, 0x40, 0x7f, 0x80, 0xff};
    char id[TRP__BUILD_ID_TEXT];
    tiny t = make_tiny();
    image file = make_image(&t, sizeof t);
    for (size_t at = 0; at < sizeof t; at++) {
        unsigned char was = ((unsigned char *)&t)[at];
        for (size_t i = 0; i < sizeof values; i++) {
            assert_int_equal(pwrite(file.fd, &values[i], 1, (off_t)at), 1);
            if (trp__build_id_of_file(file.path, id))
                assert_int_equal(strlen(id) % 2, 0);
            else
                assert_string_equal(id, "");
        }
        assert_int_equal(pwrite(file.fd, &was, 1, (off_t)at), 1);
    }
    memset((char *)&t.build.head, 0xff, 8); /* a name and a content of 4 GiB */
    assert_false(read_tiny(&t, sizeof t, id));
    t = make_tiny();
    memset(&t.part[1].p_offset, 0xff, sizeof t.part[1].p_offset);
    assert_false(read_tiny(&t, sizeof t, id));
    close(file.fd);
}

static void of_a_loaded_library(void **unused)
{
    (void)unused;
    char by_file[TRP__BUILD_ID_TEXT], loaded[TRP__BUILD_ID_TEXT];
    struct link_map *map = NULL;
    void *handle = dlopen("libc.so.6", RTLD_LAZY);
    assert_non_null(handle);
    assert_int_equal(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
    assert_int_equal(trp__build_id_of_file(map->l_name, by_file),
                     trp__build_id_of_loaded(handle, loaded));
    assert_string_equal(by_file, loaded);
    dlclose(handle);
}

/* The loader's cache. */

enum { CACHE_HEAD = 48, CACHE_ROW = 24 };

static void put(unsigned char *at, uint32_t number)
{
    memcpy(at, &number, sizeof number);
}

/* Three rows: for another kind of machine, for special processors, and the one. */
static size_t make_cache(unsigned char *out)
{
    static const char texts[] = "libx.so.1\0/other/libx.so.1\0/special/libx.so.1\0/lib/libx.so.1";
    const uint32_t flags = sizeof(void *) == 8 ? 0x0303 : 0;
    const uint32_t begin = CACHE_HEAD + 3 * CACHE_ROW;
    const uint32_t path[] = {10, 27, 46};
    memset(out, 0, begin);
    memcpy(out, "glibc-ld.so.cache1.1", 20);
    put(out + 20, 3);
    for (size_t i = 0; i < 3; i++) {
        unsigned char *row = out + CACHE_HEAD + i * CACHE_ROW;
        put(row, i == 0 ? 3 : flags);
        put(row + 4, begin);
        put(row + 8, begin + path[i]);
        put(row + 20, i == 1 ? 1 : 0);
    }
    memcpy(out + begin, texts, sizeof texts);
    return begin + sizeof texts;
}

/* Of a copy that has no byte behind it. */
static trp__ldpath_result find_in(const unsigned char *cache, size_t size, char *out)
{
    unsigned char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, cache, size);
    trp__ldpath_result result = trp__ldpath_find_in_cache(copy, size, "libx.so.1", out, 64);
    free(copy);
    return result;
}

static void in_the_cache(void **unused)
{
    (void)unused;
#if defined(__x86_64__) && defined(__LP64__)
    unsigned char cache[256];
    char path[64];
    size_t size = make_cache(cache);
    assert_int_equal(find_in(cache, size, path), TRP__LDPATH_FOUND);
    assert_string_equal(path, "/lib/libx.so.1");
    assert_int_equal(trp__ldpath_find_in_cache(cache, size, "liby.so.1", path, sizeof path),
                     TRP__LDPATH_ABSENT);
    assert_int_equal(trp__ldpath_find_in_cache(cache, size, "libx.so.1", path, 14),
                     TRP__LDPATH_UNKNOWN); /* no room */
    for (size_t shorter = 0; shorter < size; shorter++)
        assert_int_not_equal(find_in(cache, shorter, path), TRP__LDPATH_FOUND);
    for (size_t at = 0; at < size; at++) {
        for (int bit = 0; bit < 8; bit++) {
            cache[at] ^= (unsigned char)(1 << bit);
            (void)find_in(cache, size, path);
            cache[at] ^= (unsigned char)(1 << bit);
        }
    }
#else
    skip();
#endif
}

static void by_the_loader(void **unused)
{
    (void)unused;
    char path[PATH_MAX], folder[PATH_MAX - 64], library[PATH_MAX];
    assert_int_equal(trp__ldpath_find("libc.so.6", path, sizeof path), TRP__LDPATH_FOUND);
    assert_int_equal(access(path, R_OK), 0);
    assert_int_not_equal(trp__ldpath_find("libtroupe-none.so.1", path, sizeof path),
                         TRP__LDPATH_FOUND);
    h_folder_make(folder, sizeof folder, "ldpath");
    snprintf(library, sizeof library, "%s/libtroupe-none.so.1", folder);
    h_file_write(library, "no library");
    snprintf(path, sizeof path, "/none:%s", folder);
    setenv("LD_LIBRARY_PATH", path, 1);
    assert_int_equal(trp__ldpath_find("libtroupe-none.so.1", path, sizeof path), TRP__LDPATH_FOUND);
    assert_string_equal(path, library);
    setenv("LD_LIBRARY_PATH", "/none::/none", 1); /* the current folder */
    assert_int_equal(trp__ldpath_find("libtroupe-none.so.1", path, sizeof path),
                     TRP__LDPATH_UNKNOWN);
    unsetenv("LD_LIBRARY_PATH");
    h_folder_remove(folder);
}

/* What is cut off, or is none at all, can't be loaded. */
static void library_files(void **unused)
{
    (void)unused;
    char path[PATH_MAX], folder[PATH_MAX - 64], part[PATH_MAX], data[4096];
    assert_int_equal(trp__ldpath_find("libc.so.6", path, sizeof path), TRP__LDPATH_FOUND);
    assert_true(trp__is_library_file(path));
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    const size_t bytes = fread(data, 1, sizeof data, in);
    fclose(in);
    h_folder_make(folder, sizeof folder, "library");
    snprintf(part, sizeof part, "%s/part.so", folder);
    assert_false(trp__is_library_file(folder));
    assert_false(trp__is_library_file(part));
    for (size_t most = 0; most <= bytes; most += most < 128 ? 1 : 331) {
        FILE *out = fopen(part, "wb");
        assert_non_null(out);
        assert_int_equal(fwrite(data, 1, most, out), most);
        assert_int_equal(fclose(out), 0);
        assert_false(trp__is_library_file(part));
    }
    h_folder_remove(folder);
}

UNIT_MAIN(UNIT(of_a_file), UNIT(without_a_note), UNIT(damaged), UNIT(of_a_loaded_library),
          UNIT(in_the_cache), UNIT(by_the_loader), UNIT(library_files))
