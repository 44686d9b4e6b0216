#include "cache/inspect.h"

#include "base/text.h"
#include "cache/key.h"
#include "cache/prune.h"
#include "cache/store_parts.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct looker {
    bool (*see)(void *context, const trp__inspected *one);
    void *context;
} looker;

static bool show_pack(const trp__cache_pack *pack, const looker *l)
{
    for (uint64_t i = 0; i < trp__cache_pack_count(pack); i++) {
        trp__inspected one = {.layer = TRP__STORE_PACK, .pack = trp__cache_pack_path(pack)};
        unsigned char *memory;
        one.wrong = trp__cache_pack_entry(pack, i, &memory, &one.entry);
        one.hash = one.entry.hash;
        one.type = one.entry.type;
        one.size = one.entry.size;
        bool more = l->see(l->context, &one);
        free(memory);
        if (!more)
            return false;
    }
    return true;
}

static bool show_file(int folder, const trp__disk_file *file, bool whole, const looker *l)
{
    char name[TRP__DISK_NAME];
    unsigned char *bytes;
    trp__inspected one = {.layer = TRP__STORE_DISK,
                          .hash = file->hash,
                          .type = file->type,
                          .size = file->bytes,
                          .used_ns = file->used_ns};
    trp__disk_name(name, &file->hash, file->type);
    one.wrong = trp__disk_read(folder, name, !whole, &bytes, &one.entry);
    if (!one.wrong) {
        trp__hash hash = trp__hash_of(one.entry.key, one.entry.key_bytes);
        if (!trp__hash_equal(&hash, &file->hash) || one.entry.type != file->type)
            one.wrong = "it has the name of another entry";
    }
    /* Skips an entry that was removed meanwhile. */
    bool gone = one.wrong && faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
    bool more = gone || l->see(l->context, &one);
    free(bytes);
    return more;
}

trp_status trp__inspect_all(trp__store *store, bool whole,
                            bool (*see)(void *context, const trp__inspected *one), void *context,
                            trp_error *error)
{
    const looker l = {see, context};
    trp__disk_list list;
    int folder;
    for (size_t i = 0; i < store->pack_count; i++) {
        if (!show_pack(store->pack[i], &l))
            return TRP_OK;
    }
    trp_status status = trp__disk_folder(&store->disk, false, &folder, error);
    if (status != TRP_OK)
        return status == TRP_E_MISSING ? TRP_OK : status;
    status = trp__disk_list_all(folder, &list, error);
    for (size_t i = list.count; status == TRP_OK && i > 0; i--) {
        if (!show_file(folder, &list.file[i - 1], whole, &l))
            break;
    }
    if (status == TRP_OK)
        trp__disk_list_end(&list);
    close(folder);
    return status;
}

void trp__inspect_field(const trp__entry *entry, uint32_t tag, char *text, size_t size)
{
    trp__key_field field;
    size_t bytes = 0;
    if (trp__key_find(entry->key, entry->key_bytes, tag, &field)) {
        bytes = field.bytes < size - 1 ? field.bytes : size - 1;
        memcpy(text, field.content, bytes);
    }
    text[bytes] = '\0';
    trp__text_clean(text);
}
