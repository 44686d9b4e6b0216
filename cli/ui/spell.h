/* "did you mean": finds the name nearest to a mistyped one. */
#ifndef TRP_CLI_UI_SPELL_H
#define TRP_CLI_UI_SPELL_H

#include <stddef.h>

typedef struct spell {
    const char *word;
    size_t length;
    const char *best; /* the nearest name so far; NULL: none is near */
    unsigned distance;
} spell;

/* Begins a search for the first `length` bytes of a word. */
spell spell_begin(const char *word, size_t length);

/* Tries one name. The string must stay valid. */
void spell_try(spell *s, const char *name);

/* Tries all names of a list that ends with NULL. */
void spell_try_all(spell *s, const char *const *names);

/* Returns ", did you mean 'matmul'?", or "" where no name is near. `prefix` precedes the name:
 * "--". */
typedef struct spell_text {
    char s[80];
} spell_text;
spell_text spell_hint(const spell *s, const char *prefix);

#endif
