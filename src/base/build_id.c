#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* dlinfo, dl_iterate_phdr */
#endif

#include "base/build_id.h"

#include "base/os/descriptor.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bounds on what is read of a file: libraries have about ten program headers, and notes of some
 * hundred bytes. */
enum { PARTS_MAX = 64, NOTES_MAX = 4096 };

#if __SIZEOF_POINTER__ == 8
#define OUR_CLASS ELFCLASS64
#else
#define OUR_CLASS ELFCLASS32
#endif
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define OUR_DATA ELFDATA2LSB
#else
#define OUR_DATA ELFDATA2MSB
#endif

static size_t padded(uint32_t bytes, size_t align)
{
    return ((size_t)bytes + align - 1) / align * align;
}

/* Searches one note segment for the build ID. */
static bool find_in_notes(const unsigned char *notes, size_t size, size_t align,
                          char out[TRP__BUILD_ID_TEXT])
{
    ElfW(Nhdr) note;
    for (size_t at = 0; at <= size && size - at >= sizeof note;) {
        memcpy(&note, notes + at, sizeof note);
        at += sizeof note;
        size_t name = padded(note.n_namesz, align), content = padded(note.n_descsz, align);
        if (name > size - at || note.n_descsz > size - at - name)
            return false;
        const unsigned char *id = notes + at + name;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(notes + at, "GNU", 4) == 0 && note.n_descsz > 0 &&
            note.n_descsz <= TRP__BUILD_ID_BYTES_MAX) {
            for (uint32_t i = 0; i < note.n_descsz; i++)
                snprintf(out + 2 * i, 3, "%02x", id[i]);
            return true;
        }
        at += name + content;
    }
    return false;
}

static size_t note_align(const ElfW(Phdr) * part)
{
    return part->p_align == 8 ? 8 : 4;
}

/* Files. */

static bool read_at(int fd, void *out, size_t bytes, uint64_t at)
{
    return at <= INT64_MAX - bytes && pread(fd, out, bytes, (off_t)at) == (ssize_t)bytes;
}

static bool is_ours(const ElfW(Ehdr) * head)
{
    return memcmp(head->e_ident, ELFMAG, SELFMAG) == 0 && head->e_ident[EI_CLASS] == OUR_CLASS &&
           head->e_ident[EI_DATA] == OUR_DATA && head->e_phentsize == sizeof(ElfW(Phdr)) &&
           head->e_phnum <= PARTS_MAX;
}

static bool find_in_file(int fd, char out[TRP__BUILD_ID_TEXT])
{
    ElfW(Ehdr) head;
    ElfW(Phdr) part[PARTS_MAX];
    unsigned char notes[NOTES_MAX];
    if (!read_at(fd, &head, sizeof head, 0) || !is_ours(&head) ||
        !read_at(fd, part, head.e_phnum * sizeof *part, head.e_phoff))
        return false;
    for (int i = 0; i < head.e_phnum; i++) {
        if (part[i].p_type == PT_NOTE && part[i].p_filesz <= sizeof notes &&
            read_at(fd, notes, part[i].p_filesz, part[i].p_offset) &&
            find_in_notes(notes, part[i].p_filesz, note_align(&part[i]), out))
            return true;
    }
    return false;
}

static bool is_our_machine(const ElfW(Ehdr) * head)
{
#if defined(__x86_64__)
    return head->e_machine == EM_X86_64;
#elif defined(__aarch64__)
    return head->e_machine == EM_AARCH64;
#else
    return head->e_machine != EM_NONE;
#endif
}

static bool is_whole(int fd, uint64_t bytes)
{
    ElfW(Ehdr) head;
    ElfW(Phdr) part[PARTS_MAX];
    bool dynamic = false;
    if (!read_at(fd, &head, sizeof head, 0) || !is_ours(&head) || !is_our_machine(&head) ||
        head.e_type != ET_DYN || !read_at(fd, part, head.e_phnum * sizeof *part, head.e_phoff))
        return false;
    for (int i = 0; i < head.e_phnum; i++) {
        dynamic = dynamic || part[i].p_type == PT_DYNAMIC;
        if (part[i].p_type == PT_LOAD &&
            (part[i].p_offset > bytes || part[i].p_filesz > bytes - part[i].p_offset))
            return false;
    }
    return dynamic;
}

/* Opens a file for reading, and sets *bytes to its size. -1: it can't be read, or is no regular
 * file. */
static int open_file(const char *path, uint64_t *bytes)
{
    struct stat s;
    /* does not wait for the writer of a pipe */
    int fd = trp__descriptor_apart(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd >= 0 && (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode))) {
        close(fd);
        return -1;
    }
    *bytes = fd >= 0 ? (uint64_t)s.st_size : 0;
    return fd;
}

bool trp__build_id_of_file(const char *path, char out[TRP__BUILD_ID_TEXT])
{
    uint64_t bytes;
    out[0] = '\0';
    int fd = open_file(path, &bytes);
    if (fd < 0)
        return false;
    bool found = find_in_file(fd, out);
    close(fd);
    return found;
}

bool trp__is_library_file(const char *path)
{
    uint64_t bytes;
    int fd = open_file(path, &bytes);
    if (fd < 0)
        return false;
    bool whole = is_whole(fd, bytes);
    close(fd);
    return whole;
}

/* Loaded libraries. */

typedef struct search {
    ElfW(Addr) address; /* where the library begins */
    char *out;
    bool found;
} search;

static int look_at_library(struct dl_phdr_info *info, size_t size, void *context)
{
    search *s = context;
    (void)size;
    if (info->dlpi_addr != s->address)
        return 0;
    for (int i = 0; i < info->dlpi_phnum && !s->found; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const void *notes = (const void *)(uintptr_t)(info->dlpi_addr + part->p_vaddr);
        s->found = part->p_type == PT_NOTE &&
                   find_in_notes(notes, part->p_memsz, note_align(part), s->out);
    }
    return 1;
}

bool trp__build_id_of_loaded(void *handle, char out[TRP__BUILD_ID_TEXT])
{
    struct link_map *map = NULL;
    out[0] = '\0';
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
        return false;
    search s = {.address = map->l_addr, .out = out};
    dl_iterate_phdr(look_at_library, &s);
    return s.found;
}
