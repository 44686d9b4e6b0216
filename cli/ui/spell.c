#include "spell.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST = 48, PREFIX_LEAST = 2 };

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Returns the number of letters to insert, delete, replace or swap to turn one word into the other:
 * the optimal string alignment distance, computed row by row. */
static unsigned distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    unsigned rows[3][LONGEST + 1];
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= a_length; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3], *higher = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_length; j++) {
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], higher[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

spell spell_begin(const char *word, size_t length)
{
    return (spell){.word = word, .length = length};
}

/* A name is near if at most about a third of its letters differ, three at most, or if the word is
 * its prefix. */
void spell_try(spell *s, const char *name)
{
    const size_t length = strlen(name);
    const size_t longer = length > s->length ? length : s->length;
    if (length == 0 || s->length == 0 || longer > LONGEST)
        return;
    unsigned found = distance(s->word, s->length, name, length);
    const unsigned most = longer < 3 ? 0 : longer > 8 ? 3 : ((unsigned)longer + 1) / 3;
    if (s->length >= PREFIX_LEAST && strncmp(s->word, name, s->length) == 0)
        found = 1;
    if (found > most || (s->best && found >= s->distance))
        return;
    s->best = name;
    s->distance = found;
}

void spell_try_all(spell *s, const char *const *names)
{
    for (size_t i = 0; names[i]; i++)
        spell_try(s, names[i]);
}

spell_text spell_hint(const spell *s, const char *prefix)
{
    spell_text text = {""};
    if (s->best)
        snprintf(text.s, sizeof text.s, ", did you mean '%s%s'?", prefix, s->best);
    return text;
}
